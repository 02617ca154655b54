import { conformanceModels, testBackend, testOps } from '@stet/backend/conformance';
import { afterAll, describe } from 'vitest';
import { createWebGpuBackend, createWebGpuOpRunner, liveBytes, WebGpu } from '../src/index.js';

const device = await WebGpu.open();
afterAll(() => device.close());

describe('the WebGPU backend in a page', () => {
  testOps(() => createWebGpuOpRunner({ device }), { name: 'canonical kernels' });
  // Of the models the one that has most of everything: the others differ in weights, which the vectors above cover.
  const models = conformanceModels().filter(({ name }) => name === 'odd');
  testBackend(createWebGpuBackend({ device, selfTest: false }), { name: 'webgpu', liveBytes, models });
});
