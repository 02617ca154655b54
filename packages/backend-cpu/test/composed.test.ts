import { type BackendFactory, composeBackends } from '@stet/backend';
import { testBackend } from '@stet/backend/conformance';
import { createReferenceBackend } from '@stet/reference';
import { describe, it } from 'vitest';
import { cpuFormats, createCpuBackend, type IsaName, liveBytes } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';

const native = (isa: IsaName | 'auto') => createCpuBackend({ isa, threads: 2, selfTest: false });
const fastIsa = isas.includes('avx2') ? 'avx2' : 'scalar';

/** Name, fast part, canonical part. */
const compositions: readonly (readonly [string, BackendFactory, BackendFactory])[] = [
  [`the CPU with ${fastIsa} and the reference as one`, native(fastIsa), createReferenceBackend],
  ['the reference and the CPU as one', createReferenceBackend, native('auto')],
];

describe.skipIf(withoutAddon)('a composed backend', () => {
  for (const [name, fast, canonical] of compositions) {
    testBackend(composeBackends({ fast, canonical }), { name, liveBytes, formats: cpuFormats });
  }
});

if (withoutAddon !== undefined) it.skip(`compositions with the CPU are not tested here (${withoutAddon})`, () => {});
