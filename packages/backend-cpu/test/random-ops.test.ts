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
const format = fc.constantFrom<WeightFormat>('bf16', 'q8');

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
  rmsNorm: fc.record({ columns, rowCount, scale, seed }).map((c) => {
    const random = new Random(c.seed);
    const weight = random.floats(c.columns, 1);
    return {
      kind: 'rmsNorm',
      width: c.columns,
      epsilon: 1e-5,
      weight,
      input: random.floats(c.rowCount * c.columns, c.scale),
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

it.skipIf(withoutAddon === undefined)(`kernels on random shapes are not tested here (${withoutAddon})`, () => {});

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
