import type { OpCase, OpRunner } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { createReferenceOpRunner } from '@stet/reference';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { createCpuOpRunner } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';
import { Random } from './support/random.js';
import { describeCase, randomCases, randomMatrix } from './support/random-cases.js';

const reference = createReferenceOpRunner();

afterAll(() => reference.close());

if (withoutAddon !== undefined) it.skip(`kernels on random shapes are not tested here (${withoutAddon})`, () => {});

describe.each(isas)('%s kernels on random shapes', (isa) => {
  const canonical = createCpuOpRunner({ isa });
  const fast = createCpuOpRunner({ isa, schedule: 'fast' });

  it.each(Object.entries(randomCases))(
    '%s has the bits of the reference, and its fast kernel comes close',
    async (_, arbitrary) => {
      await fc.assert(
        fc.asyncProperty(arbitrary, async (input) => {
          const expected = (await reference.run(input)).output;
          expectEqualBits((await canonical.run(input)).output, expected, describeCase(input));
          expectClose((await fast.run(input)).output, expected, describeCase(input));
        }),
        { numRuns: 40, seed: 20261129, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
      );
    },
  );

  it('attends to nothing outside of a window, whatever stands there', async () => {
    const attention = randomCases.attention.filter(
      (input) => input.kind === 'attention' && input.windowSize !== undefined,
    );
    let poisoned = 0;
    await fc.assert(
      fc.asyncProperty(attention, async (input) => {
        const { output } = await reference.run(input);
        const { input: other, count } = poisonUnseen(input as AttentionCase);
        poisoned += count;
        expectEqualBits((await canonical.run(other)).output, output, describeCase(input));
      }),
      { numRuns: 40, seed: 20261129, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
    );
    expect(poisoned).toBeGreaterThan(100);
  });

  it('attends to more positions than 16 bits count', async () => {
    const input = longContext(33_000);
    for (const windowSize of [undefined, 100, 32_900]) {
      const windowed = { ...input, ...(windowSize ? { windowSize } : {}) };
      expectEqualBits(
        (await canonical.run(windowed)).output,
        (await reference.run(windowed)).output,
        describeCase(windowed),
      );
    }
  });

  it.skipIf(isa === 'scalar')('has other kernels than the canonical ones for some sizes of a fast batch', async () => {
    const bitsOf = async (runner: OpRunner, input: OpCase) => new Int32Array((await runner.run(input)).output.buffer);
    const differing: number[] = [];
    for (const count of [1, 4, 16, 64]) {
      const input = linearCase(count);
      const canonicalBits = await bitsOf(canonical, input);
      if ((await bitsOf(fast, input)).some((bits, i) => bits !== canonicalBits[i])) differing.push(count);
    }
    expect(differing).not.toEqual([]);
  });
});

/** 80 outputs: five tiles, so that some block is narrow and fast kernels without dot instructions cut its sums. */
function linearCase(count: number): OpCase {
  const random = new Random(count);
  const weight = randomMatrix(random, 80, 704, 'bf16');
  return { kind: 'linear', format: 'bf16', rows: 80, columns: 704, weight, input: random.floats(count * 704, 1) };
}

type AttentionCase = OpCase & { readonly kind: 'attention' };

/** The same case with huge keys and values at all positions that no query attends to, and how many those are. */
function poisonUnseen(input: AttentionCase): { input: AttentionCase; count: number } {
  const width = input.kvHeadCount * input.headSize;
  const key = input.key.slice();
  const value = input.value.slice();
  const windowSize = input.windowSize ?? Number.POSITIVE_INFINITY;
  let count = 0;
  for (let p = 0; p < key.length / width; p++) {
    if (input.queryPositions.some((q) => p <= q && p > q - windowSize)) continue;
    key.fill(1e30, p * width, (p + 1) * width);
    value.fill(1e30, p * width, (p + 1) * width);
    count++;
  }
  return { input: { ...input, key, value }, count };
}

/** One query at each of the last three positions; one head of the least size, so that the reference is soon done. */
function longContext(positionCount: number): AttentionCase {
  const random = new Random(positionCount);
  const sizes = { headCount: 1, kvHeadCount: 1, headSize: 2, blockSize: 64 } as const;
  return {
    kind: 'attention',
    ...sizes,
    key: random.floats(positionCount * sizes.headSize, 0.1),
    value: random.floats(positionCount * sizes.headSize, 1),
    query: random.floats(3 * sizes.headSize, 0.1),
    queryPositions: Int32Array.from([3, 2, 1], (back) => positionCount - back),
  };
}

/** Against the largest value of the output: bf16 and int8 inputs err by less than 1 % of it. */
function expectClose(got: Float32Array, want: Float32Array, where: string): void {
  expect(got.length, where).toBe(want.length);
  const largest = want.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  for (let i = 0; i < got.length; i++) {
    const error = Math.abs(got[i] - want[i]);
    if (!(error <= 0.01 * largest))
      throw new Error(`${where}: fast value ${i} is ${got[i]}, the canonical one ${want[i]}`);
  }
}
