import { testOps } from '@stet/backend/conformance';
import { describe, it } from 'vitest';
import { createWebGpuOpRunner } from '../src/index.js';
import { testGpu, withoutGpu } from './support/gpu.js';

describe.skipIf(withoutGpu)('the WebGPU backend', () => {
  testOps(() => createWebGpuOpRunner(testGpu), { name: 'canonical kernels' });
});

if (withoutGpu !== undefined) it.skip(`the WebGPU backend is not tested here (${withoutGpu})`, () => {});
