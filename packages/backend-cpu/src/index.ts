export type { IsaName, NativeIsa } from './addon.js';
export { createCpuBackend } from './backend.js';
export { type CpuFeatures, cpuFeatures, liveBytes } from './features.js';
export { MAX_HEAD_SIZE, MAX_ROWS, MAX_VOCAB_SIZE } from './load.js';
export { type CpuOpRunnerOptions, createCpuOpRunner } from './op-runner.js';
export {
  type CpuOptions,
  cpuFormats,
  DEFAULT_PACKED_BYTES,
  type FastOption,
  type IsaOption,
  MAX_THREADS,
  type PackedOutcome,
  type PackedWeightsOptions,
} from './options.js';
export { type PackedFileChoice, packedWeightsFile } from './packed/find-packed.js';
