import type { OpCase, OpRunner, WeightData, WeightFormat } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { encodeWeight } from '@stet/backend/numerics';
import { createReferenceOpRunner } from '@stet/reference';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { createCpuOpRunner } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';
import { Random } from './support/random.js';

const reference = createReferenceOpRunner();

/** Sizes around the kernels' tiles, blocks and segments, and whatever lies between. */
const columns = fc.oneof(
  fc.constantFrom(1, 31, 32, 33, 64, 255, 256, 257, 288, 512, 704),
  fc.integer({ min: 1, max: 600 }),
);
const rows = fc.oneof(fc.constantFrom(1, 15, 16, 17, 32, 48, 64, 65), fc.integer({ min: 1, max: 100 }));
const rowCount = fc.oneof(
  fc.constantFrom(1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33),
  fc.integer({ min: 1, max: 70 }),
);
const scale = fc.constantFrom(2 ** -20, 0.01, 1, 300);
const seed = fc.integer({ min: 0, max: 2 ** 31 });
const format = fc.constantFrom<WeightFormat>('bf16', 'q8', 'q4');

const cases: Readonly<Record<OpCase['kind'], fc.Arbitrary<OpCase>>> = {
  embed: fc.record({ rows, columns, format, seed }).map((c) => {
    const random = new Random(c.seed);
    const tokens = Int32Array.from({ length: 5 }, () => random.between(0, c.rows - 1));
    return {
      kind: 'embed',
      rows: c.rows,
      columns: c.columns,
      table: matrix(random, c.rows, c.columns, c.format),
      tokens,
    };
  }),
  linear: fc.record({ rows, columns, rowCount, format, scale, seed, hasBias: fc.boolean() }).map((c) => {
    const random = new Random(c.seed);
    return {
      kind: 'linear',
      format: c.format,
      rows: c.rows,
      columns: c.columns,
      weight: matrix(random, c.rows, c.columns, c.format),
      input: random.floats(c.rowCount * c.columns, c.scale),
      ...(c.hasBias ? { bias: random.floats(c.rows, 1).map((x) => (Math.abs(x) < 2 ** -60 ? 0 : x)) } : {}),
    };
  }),
  rmsNorm: fc.record({ columns, groupCount: fc.constantFrom(1, 1, 2, 3, 8), rowCount, scale, seed }).map((c) => {
    const random = new Random(c.seed);
    const weight = random.floats(c.columns, 1);
    const width = c.columns * c.groupCount;
    return {
      kind: 'rmsNorm',
      width,
      epsilon: 1e-5,
      ...(c.groupCount > 1 ? { groupCount: c.groupCount } : {}),
      weight,
      input: random.floats(c.rowCount * width, c.scale),
    };
  }),
  rope: fc
    .record({ headCount: fc.integer({ min: 1, max: 5 }), pairs: fc.integer({ min: 1, max: 70 }), scale, seed })
    .map((c) => {
      const random = new Random(c.seed);
      const headSize = 2 * c.pairs;
      const positions = Int32Array.from({ length: 6 }, () => random.between(0, 2000));
      const inverseFrequencies = Array.from({ length: c.pairs }, (_, i) => 10000 ** (-i / c.pairs));
      return {
        kind: 'rope',
        headCount: c.headCount,
        headSize,
        rope: { inverseFrequencies, attentionFactor: random.pick([1, 1.25]) },
        positions,
        input: random.floats(6 * c.headCount * headSize, c.scale),
      };
    }),
  attention: fc
    .record({
      kvHeadCount: fc.integer({ min: 1, max: 3 }),
      share: fc.integer({ min: 1, max: 9 }),
      headSize: fc.oneof(
        fc.constantFrom(16, 32, 64, 96, 128, 256),
        fc.integer({ min: 1, max: 80 }).map((n) => 2 * n),
      ),
      blockSize: fc.constantFrom(16, 32, 48, 64, 128),
      positionCount: fc.oneof(fc.constantFrom(1, 15, 16, 17, 63, 64, 65, 128, 129), fc.integer({ min: 1, max: 300 })),
      windowSize: fc.oneof(
        fc.constant(undefined),
        fc.constantFrom(1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 4096),
        fc.integer({ min: 1, max: 300 }),
      ),
      scale: fc.constantFrom(0.01, 1, 10),
      seed,
    })
    .map((c) => {
      const random = new Random(c.seed);
      const headCount = c.kvHeadCount * c.share;
      const kvLength = c.positionCount * c.kvHeadCount * c.headSize;
      const queryPositions = Int32Array.from(queryRuns(random, c.positionCount));
      return {
        kind: 'attention',
        headCount,
        kvHeadCount: c.kvHeadCount,
        headSize: c.headSize,
        blockSize: c.blockSize,
        ...(c.windowSize ? { windowSize: c.windowSize } : {}),
        key: random.floats(kvLength, c.scale),
        value: random.floats(kvLength, c.scale),
        query: random.floats(queryPositions.length * headCount * c.headSize, c.scale),
        queryPositions,
      };
    }),
  swiglu: fc.record({ columns, scale, seed }).map((c) => {
    const random = new Random(c.seed);
    return { kind: 'swiglu', gate: random.floats(c.columns, c.scale), up: random.floats(c.columns, c.scale) };
  }),
  add: fc.record({ columns, scale, seed }).map((c) => {
    const random = new Random(c.seed);
    return { kind: 'add', left: random.floats(c.columns, c.scale), right: random.floats(c.columns, c.scale) };
  }),
};

afterAll(() => reference.close());

if (withoutAddon !== undefined) it.skip(`kernels on random shapes are not tested here (${withoutAddon})`, () => {});

describe.each(isas)('%s kernels on random shapes', (isa) => {
  const canonical = createCpuOpRunner({ isa });
  const fast = createCpuOpRunner({ isa, schedule: 'fast' });

  it.each(Object.entries(cases))(
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
    const attention = cases.attention.filter((input) => input.kind === 'attention' && input.windowSize !== undefined);
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
  const weight = matrix(random, 80, 704, 'bf16');
  return { kind: 'linear', format: 'bf16', rows: 80, columns: 704, weight, input: random.floats(count * 704, 1) };
}

function matrix(random: Random, rowTotal: number, columnCount: number, kind: WeightFormat): WeightData {
  const spec = { kind: 'matrix', name: 'w', rows: rowTotal, columns: columnCount, format: kind } as const;
  return encodeWeight(spec, random.floats(rowTotal * columnCount, 1 / Math.sqrt(columnCount)));
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

/** Runs of consecutive positions, as prefill has them, and single ones. */
function queryRuns(random: Random, positionCount: number): number[] {
  const positions: number[] = [];
  for (let run = 0; run < 3; run++) {
    const first = random.between(0, positionCount - 1);
    const length = Math.min(random.pick([1, 2, 7, 16, 20]), positionCount - first);
    for (let i = 0; i < length; i++) positions.push(first + i);
  }
  return positions;
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

function describeCase(input: OpCase): string {
  const sizes = Object.entries(input).filter(([, value]) => typeof value === 'number');
  return `${input.kind} ${sizes.map(([name, value]) => `${name}=${value}`).join(' ')}`;
}
