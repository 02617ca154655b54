import { testBackend } from '@stet/backend/conformance';
import { describe, it } from 'vitest';
import { createWebGpuBackend, liveBytes } from '../src/index.js';
import { withoutGpu } from './support/gpu.js';
import { sharedDevice } from './support/shared-device.js';

describe.skipIf(withoutGpu)('the WebGPU backend', () => {
  const gpu = sharedDevice();
  testBackend((load) => createWebGpuBackend({ device: gpu(), selfTest: false })(load), { name: 'webgpu', liveBytes });
});

it.skipIf(withoutGpu === undefined)(`the WebGPU backend is not tested here (${withoutGpu})`, () => {});
