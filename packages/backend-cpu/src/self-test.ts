import type { BackendFactory } from '@stet/backend';
import { assertSelfTest, selfTestModel, selfTestOps } from '@stet/backend/self-test';
import type { Addon, IsaName } from './addon.js';
import { createCpuOpRunner } from './op-runner.js';
import { cpuFormats, type FastOption } from './options.js';

export interface TestedKernels {
  readonly isa: IsaName;
  readonly fast: FastOption;
}

/** One test a process and table of kernels, which cannot change while the addon is loaded. */
const tested = new WeakMap<Addon, Map<string, Promise<void>>>();

/**
 * Checks the canonical kernels of a table on golden vectors and, with backends of `factory`, the way a step is split
 * and put together on golden models. Rejects with `STET_ERR_CANONICAL_REFUSED` where one bit differs.
 */
export function checkCanonical(addon: Addon, kernels: TestedKernels, factory: BackendFactory): Promise<void> {
  let byKernels = tested.get(addon);
  if (!byKernels) {
    byKernels = new Map();
    tested.set(addon, byKernels);
  }
  const key = `${kernels.isa} ${kernels.fast}`;
  let result = byKernels.get(key);
  if (!result) {
    result = runVectors(kernels, factory);
    byKernels.set(key, result);
  }
  return result;
}

async function runVectors(kernels: TestedKernels, factory: BackendFactory): Promise<void> {
  const runner = createCpuOpRunner(kernels);
  try {
    assertSelfTest(await selfTestOps(runner, { formats: cpuFormats }));
  } finally {
    await runner.close();
  }
  assertSelfTest(await selfTestModel(factory, { formats: cpuFormats, chunkings: ['chunks'] }));
}
