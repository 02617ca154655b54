import type { OpCase, WeightData, WeightFormat } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import fc from 'fast-check';
import { Random } from './random.js';

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

/** Operations on plain arrays, of each kind. */
export const randomCases: Readonly<Record<OpCase['kind'], fc.Arbitrary<OpCase>>> = {
  embed: fc.record({ rows, columns, format, seed }).map((c) => {
    const random = new Random(c.seed);
    const tokens = Int32Array.from({ length: 5 }, () => random.between(0, c.rows - 1));
    return {
      kind: 'embed',
      rows: c.rows,
      columns: c.columns,
      table: randomMatrix(random, c.rows, c.columns, c.format),
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
      weight: randomMatrix(random, c.rows, c.columns, c.format),
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

export function randomMatrix(random: Random, rowTotal: number, columnCount: number, kind: WeightFormat): WeightData {
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

export function describeCase(input: OpCase): string {
  const sizes = Object.entries(input).filter(([, value]) => typeof value === 'number');
  return `${input.kind} ${sizes.map(([name, value]) => `${name}=${value}`).join(' ')}`;
}
