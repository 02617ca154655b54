import { testBackend, testOps } from '@stet/backend/conformance';
import { describe, it } from 'vitest';
import { createCpuBackend, createCpuOpRunner, liveBytes } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';

describe.skipIf(withoutAddon)('the CPU backend', () => {
  for (const isa of isas) {
    testOps(() => createCpuOpRunner({ isa }), { name: `${isa} kernels` });
    for (const threads of [1, 2, 3, 4]) {
      testBackend(createCpuBackend({ isa, threads }), { name: `${isa} with ${threads} threads`, liveBytes });
    }
  }
});

it.skipIf(withoutAddon === undefined)(`the CPU backend is not tested here (${withoutAddon})`, () => {});
