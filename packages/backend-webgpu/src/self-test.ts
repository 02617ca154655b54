import type { BackendFactory } from '@stet/backend';
import { assertSelfTest, selfTestModel, selfTestOps } from '@stet/backend/self-test';
import type { WebGpu } from './device/web-gpu.js';
import { createWebGpuOpRunner } from './op-runner/op-runner.js';

/** One test a device: its kernels cannot change while it is there. */
const tested = new WeakMap<WebGpu, Promise<void>>();

/**
 * Checks the kernels of a device on golden vectors and, with backends of `factory`, the way a step is put together on golden
 * models. Rejects with `STET_ERR_CANONICAL_REFUSED` where one bit differs, `STET_ERR_DEVICE_LOST` where the device went.
 */
export function checkCanonical(gpu: WebGpu, factory: BackendFactory): Promise<void> {
  let result = tested.get(gpu);
  if (!result) {
    result = runVectors(gpu, factory);
    tested.set(gpu, result);
  }
  return result;
}

async function runVectors(gpu: WebGpu, factory: BackendFactory): Promise<void> {
  const runner = await createWebGpuOpRunner({ device: gpu });
  const ops = await selfTestOps(runner);
  await runner.close();
  // Vectors on a device that went away say nothing of its kernels.
  gpu.checkAlive();
  assertSelfTest(ops);
  const models = await selfTestModel(factory, { chunkings: ['chunks'] });
  gpu.checkAlive();
  assertSelfTest(models);
}
