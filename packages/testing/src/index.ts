export * from './fake/continuation.js';
export * from './fake/create-fake-backend.js';
export type { FakeBackend } from './fake/fake-backend.js';
export * from './fake/fake-load.js';
export * from './fake/fake-options.js';
export type { FakeScript, Schedule } from './fake/toy-model.js';
export { mix32 } from './hash.js';
export * from './manual-clock.js';
export * from './random.js';
