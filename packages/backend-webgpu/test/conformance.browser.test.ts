import { testBackend, testOps } from '@stet/backend/conformance';
import { afterAll, describe } from 'vitest';
import { createWebGpuBackend, createWebGpuOpRunner, liveBytes, WebGpu } from '../src/index.js';
import { smallModel } from './support/small-model.js';

const device = await WebGpu.open();
afterAll(() => device.close());

describe('the WebGPU backend in a page', () => {
  testOps(() => createWebGpuOpRunner({ device }), { name: 'canonical kernels' });
  // Other models differ in sizes, which the vectors above cover.
  testBackend(createWebGpuBackend({ device, selfTest: false }), { name: 'webgpu', liveBytes, models: [smallModel()] });
});
