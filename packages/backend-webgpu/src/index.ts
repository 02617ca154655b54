export { createWebGpuBackend, type WebGpuBackendOptions } from './backend.js';
export { type FindGpuOptions, findGpu } from './device/find-gpu.js';
export { liveBytes } from './device/memory.js';
export { WebGpu, type WebGpuOptions } from './device/web-gpu.js';
export { createWebGpuOpRunner, type WebGpuOpOptions } from './op-runner/op-runner.js';
