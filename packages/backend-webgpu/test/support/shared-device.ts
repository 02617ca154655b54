import { afterAll, beforeAll } from 'vitest';
import { WebGpu, type WebGpuOptions } from '../../src/index.js';
import { testGpu } from './gpu.js';

/** One device for all tests of a file or `describe`, so that pipelines are made once. */
export function sharedDevice(options: WebGpuOptions = testGpu): () => WebGpu {
  let gpu: WebGpu | undefined;
  beforeAll(async () => {
    gpu = await WebGpu.open(options);
  });
  afterAll(() => gpu?.close());
  return () => {
    if (!gpu) throw new Error('the device is open during tests alone');
    return gpu;
  };
}
