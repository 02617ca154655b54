export * from './case.js';
export * from './cases/index.js';
export * from './equal-bits.js';
export * from './models.js';
export * from './op-cases.js';
export type { Skip } from './skip.js';
export * from './test-backend.js';
export * from './test-ops.js';
export * from './vectors.js';
