import type { OpCase } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCpuOpRunner } from '../src/index.js';
import { batchShapedModel } from './support/batch-shaped-model.js';
import { isas, withoutAddon } from './support/machine.js';
import { Random } from './support/random.js';
import { describeCase, randomCases, randomMatrix } from './support/random-cases.js';

if (withoutAddon !== undefined) it.skip(`batch-shaped kernels are not tested here (${withoutAddon})`, () => {});

describe.each(isas)('batch-shaped %s kernels', (isa) => {
  const kernels = createCpuOpRunner({ isa, fast: 'batch-shaped', schedule: 'fast' });

  it.each(Object.entries(randomCases))('%s has the bits of the model of its splits', async (_, arbitrary) => {
    await fc.assert(
      fc.asyncProperty(arbitrary, async (input) => {
        expectEqualBits((await kernels.run(input)).output, await batchShapedModel(input), describeCase(input));
      }),
      { numRuns: 40, seed: 20261130, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
    );
  });

  it.each([1, 8, 9, 32, 33, 300])('linear splits its inputs as the table says for %i rows', async (rowCount) => {
    const random = new Random(rowCount);
    const input = linearCase(random, 704, rowCount);
    expectEqualBits((await kernels.run(input)).output, await batchShapedModel(input), describeCase(input));
  });

  it('linear gives a row other bits in batches of other sizes, and the same in batches of one size', async () => {
    const random = new Random(1);
    const alone = cancellingCase(random, 704);
    const rowOf = async (rowCount: number, seed: number): Promise<string> => {
      const others = new Random(seed).floats((rowCount - 1) * 704, 1);
      const { output } = await kernels.run({ ...alone, input: Float32Array.of(...alone.input, ...others) });
      return String(output.subarray(0, alone.rows));
    };
    const rows = await Promise.all([1, 8, 32, 33].map((rowCount) => rowOf(rowCount, 2)));
    expect(new Set(rows).size).toBe(4);
    for (const rowCount of [2, 8, 9, 33, 100]) {
      expect(await rowOf(rowCount, 3), `${rowCount} rows`).toBe(await rowOf(rowCount, 4));
    }
    expect(await rowOf(2, 5)).toBe(await rowOf(8, 5));
  });

  it('attention gives a row other bits where more rows share the device', async () => {
    const alone = attentionCase(1);
    const shared = attentionCase(40);
    const width = alone.headCount * alone.headSize;
    const first = (await kernels.run(alone)).output;
    const beside = (await kernels.run(shared)).output.subarray(0, width);
    expectEqualBits(beside, (await batchShapedModel(shared)).subarray(0, width), 'shared');
    expect(String(beside)).not.toBe(String(first));
  });

  it('rounds what it stores to bf16, ties to even', async () => {
    const left = Float32Array.of(1, 1, -1, 1.00390625, 2 ** -130);
    const right = Float32Array.of(2 ** -8, 3 * 2 ** -8, -(2 ** -8), 2 ** -20, 0);
    const { output } = await kernels.run({ kind: 'add', left, right });
    expect([...output]).toEqual([1, 1 + 4 * 2 ** -8, -1, 1.0078125, 2 ** -130]);
  });

  it('leaves canonical kernels as they are', async () => {
    const random = new Random(3);
    const cases = [linearCase(random, 300, 5), attentionCase(3)];
    const native = createCpuOpRunner({ isa });
    const studied = createCpuOpRunner({ isa, fast: 'batch-shaped' });
    for (const input of cases) {
      expectEqualBits((await studied.run(input)).output, (await native.run(input)).output, describeCase(input));
    }
  });
});

function linearCase(random: Random, columns: number, rowCount: number): OpCase & { kind: 'linear' } {
  const weight = randomMatrix(random, 80, columns, 'bf16');
  return { kind: 'linear', format: 'bf16', rows: 80, columns, weight, input: random.floats(rowCount * columns, 1) };
}

/**
 * One row whose first and last products are huge and cancel each other. Rounding to bf16 hides most differences between sums in f32;
 * here the parts that hold these products round what is beside them so coarsely that it shows.
 */
function cancellingCase(random: Random, columns: number): OpCase & { kind: 'linear' } {
  const input = linearCase(random, columns, 1);
  if (input.weight.kind !== 'bf16') throw new Error('the case is in bf16');
  const bits = input.weight.bits.slice();
  for (let row = 0; row < input.rows; row++) {
    bits[row * columns] = 0x4780; // 65536
    bits[(row + 1) * columns - 1] = 0xc780;
  }
  const values = input.input.slice();
  values[0] = 1;
  values[columns - 1] = 1;
  return { ...input, weight: { kind: 'bf16', bits }, input: values };
}

/** `rowCount` single rows, each at the end of one context of ten chunks. */
function attentionCase(rowCount: number): OpCase & { kind: 'attention' } {
  const random = new Random(9);
  const sizes = { headCount: 4, kvHeadCount: 2, headSize: 64, blockSize: 16 };
  const query = random.floats(4 * 64, 1);
  return {
    kind: 'attention',
    ...sizes,
    key: random.floats(640 * 2 * 64, 1),
    value: random.floats(640 * 2 * 64, 1),
    query: Float32Array.from({ length: rowCount * query.length }, (_, i) => query[i % query.length]),
    queryPositions: new Int32Array(rowCount).fill(639),
  };
}
