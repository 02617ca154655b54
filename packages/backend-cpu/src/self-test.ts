import { assertSelfTest, selfTestOps } from '@stet/backend/self-test';
import type { Addon, IsaName } from './addon.js';
import { createCpuOpRunner } from './op-runner.js';

/** One test a process and instruction set: the kernels cannot change while the addon is loaded. */
const tested = new WeakMap<Addon, Map<IsaName, Promise<void>>>();

/** Rejects with `STET_ERR_CANONICAL_REFUSED` where a golden vector comes out with other bits. */
export function checkKernels(addon: Addon, isa: IsaName): Promise<void> {
  let byIsa = tested.get(addon);
  if (!byIsa) {
    byIsa = new Map();
    tested.set(addon, byIsa);
  }
  let result = byIsa.get(isa);
  if (!result) {
    result = runVectors(isa);
    byIsa.set(isa, result);
  }
  return result;
}

async function runVectors(isa: IsaName): Promise<void> {
  const runner = createCpuOpRunner({ isa });
  try {
    assertSelfTest(await selfTestOps(runner));
  } finally {
    await runner.close();
  }
}
