export { createWebGpuBackend, type WebGpuBackendOptions } from './backend.js';
export { liveBytes } from './device/memory.js';
export { WebGpu, type WebGpuOptions } from './device/web-gpu.js';
export { createWebGpuOpRunner, type WebGpuOpOptions } from './op-runner/op-runner.js';
