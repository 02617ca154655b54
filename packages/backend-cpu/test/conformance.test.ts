import { testBackend, testOps } from '@stet/backend/conformance';
import { describe, it } from 'vitest';
import { cpuFormats, createCpuBackend, createCpuOpRunner, liveBytes } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';

describe.skipIf(withoutAddon)('the CPU backend', () => {
  for (const isa of isas) {
    testOps(() => createCpuOpRunner({ isa }), { name: `${isa} kernels`, formats: cpuFormats });
    for (const threads of [1, 2, 3, 4]) {
      const name = `${isa} with ${threads} threads`;
      testBackend(createCpuBackend({ isa, threads }), { name, liveBytes, formats: cpuFormats });
    }
    const name = `${isa}, batch-shaped`;
    testOps(() => createCpuOpRunner({ isa, fast: 'batch-shaped' }), { name: `${name} kernels`, formats: cpuFormats });
    const factory = createCpuBackend({ isa, fast: 'batch-shaped', threads: 2 });
    testBackend(factory, { name, liveBytes, formats: cpuFormats });
  }
});

if (withoutAddon !== undefined) it.skip(`the CPU backend is not tested here (${withoutAddon})`, () => {});
