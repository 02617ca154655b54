import type { BackendFactory } from '@stet/backend';
import { assertSelfTest, selfTestModel, selfTestOps } from '@stet/backend/self-test';
import type { Addon, IsaName } from './addon.js';
import { createCpuOpRunner } from './op-runner.js';
import { cpuFormats } from './options.js';

/** One test a process and instruction set: the kernels cannot change while the addon is loaded. */
const tested = new WeakMap<Addon, Map<IsaName, Promise<void>>>();

/**
 * Checks the kernels of an instruction set on golden vectors and, with backends of `factory`, the way a step is split
 * and put together on golden models. Rejects with `STET_ERR_CANONICAL_REFUSED` where one bit differs.
 */
export function checkCanonical(addon: Addon, isa: IsaName, factory: BackendFactory): Promise<void> {
  let byIsa = tested.get(addon);
  if (!byIsa) {
    byIsa = new Map();
    tested.set(addon, byIsa);
  }
  let result = byIsa.get(isa);
  if (!result) {
    result = runVectors(isa, factory);
    byIsa.set(isa, result);
  }
  return result;
}

async function runVectors(isa: IsaName, factory: BackendFactory): Promise<void> {
  const runner = createCpuOpRunner({ isa });
  try {
    assertSelfTest(await selfTestOps(runner, { formats: cpuFormats }));
  } finally {
    await runner.close();
  }
  assertSelfTest(await selfTestModel(factory, { formats: cpuFormats, chunkings: ['chunks'] }));
}
