export * from './batch.js';
export * from './check-load.js';
export * from './check-plan.js';
export * from './errors.js';
export * from './op-runner.js';
export * from './plan.js';
export * from './port.js';
export * from './weights.js';
