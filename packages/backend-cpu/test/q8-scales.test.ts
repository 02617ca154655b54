import type { OpCase } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import { createCpuOpRunner } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';

if (withoutAddon !== undefined) it.skip(`scales of q8 are not tested here (${withoutAddon})`, () => {});

/** One output of 64 inputs, in two blocks; the second has the scale and quants given. */
function linear(quant: number, scale: number): OpCase {
  const quants = Int8Array.from({ length: 64 }, (_, i) => (i < 32 ? 127 : quant));
  const weight = { kind: 'q8', quants, scales: Float32Array.of(1, scale) } as const;
  return { kind: 'linear', format: 'q8', rows: 1, columns: 64, weight, input: new Float32Array(64).fill(1) };
}

describe.each(isas)('a q8 matrix on %s', (isa) => {
  it.each([
    [-127, 31 / 16],
    [16, 255 / 128],
    [-64, 63 / 32],
  ])('of quants %i takes the scale %f, whose products are exact', async (quant, scale) => {
    const runner = createCpuOpRunner({ isa });
    const { output } = await runner.run(linear(quant, scale));
    expect([...output]).toEqual([32 * 127 + 32 * quant * scale]);
    await runner.close();
  });

  it.each([
    [0, 257 / 256],
    [127, 33 / 32],
    [-17, 255 / 128],
    [65, 127 / 64],
  ])('of quants %i refuses the scale %f', async (quant, scale) => {
    const runner = createCpuOpRunner({ isa });
    await expect(async () => runner.run(linear(quant, scale))).rejects.toMatchObject({ code: 'STET_ERR_BAD_WEIGHTS' });
    await runner.close();
  });
});
