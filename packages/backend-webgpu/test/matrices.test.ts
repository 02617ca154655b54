import { type OpCase, type WeightData, type WeightFormat, weightFormats } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { encodeWeight } from '@stet/backend/numerics';
import { runOp } from '@stet/reference';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { linearVariant } from '../src/kernels/linear.js';
import { OpScratch } from '../src/op-runner/op-scratch.js';
import { runEmbed } from '../src/op-runner/run-embed.js';
import { runLinear } from '../src/op-runner/run-linear.js';
import { withoutGpu } from './support/gpu.js';
import { Random } from './support/random.js';
import { sharedDevice } from './support/shared-device.js';

type EmbedCase = OpCase & { kind: 'embed' };
type LinearCase = OpCase & { kind: 'linear' };

/** Sizes around octets, blocks, segments and the workgroups of every variant, and whatever lies between. */
const columns = fc.oneof(
  fc.constantFrom(1, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1025),
  fc.integer({ min: 1, max: 400 }),
);
const rows = fc.oneof(fc.constantFrom(1, 31, 32, 33, 63, 64, 65), fc.integer({ min: 1, max: 70 }));
const rowCount = fc.oneof(fc.constantFrom(1, 2, 4, 5, 8, 9), fc.integer({ min: 1, max: 20 }));
const values = fc.constantFrom('plain', 'wild');
const seed = fc.integer({ min: 0, max: 2 ** 31 });
/** One part, parts of a few rows, and one row a part. */
const partBytes = fc.constantFrom(2 ** 27, 2 ** 14, 2 ** 12, 1);

const embedCase = (format: WeightFormat) =>
  fc.record({ rows, columns, values, seed, partBytes }).map((c) => {
    const random = new Random(c.seed);
    const table = matrix(random, c.rows, c.columns, format, c.values);
    const tokens = Int32Array.from({ length: random.between(1, 7) }, () => random.between(0, c.rows - 1));
    const input: EmbedCase = { kind: 'embed', rows: c.rows, columns: c.columns, table, tokens };
    return { input, maxPartBytes: c.partBytes };
  });

const linearCase = (format: WeightFormat) =>
  fc.record({ rows, columns, rowCount, values, seed, partBytes, hasBias: fc.boolean() }).map((c) => {
    const random = new Random(c.seed);
    const count = c.rowCount * c.columns;
    const input: LinearCase = {
      kind: 'linear',
      format,
      rows: c.rows,
      columns: c.columns,
      weight: matrix(random, c.rows, c.columns, format, c.values),
      input: c.values === 'wild' ? random.wildFloats(count, -149, 127) : random.floats(count, 1),
      ...(c.hasBias ? { bias: random.wildFloats(c.rows, -80, 20) } : {}),
    };
    return { input, maxPartBytes: c.partBytes };
  });

const runs = { numRuns: 15, seed: 20261129 } as const;
/** Software renderers share the processor, and make pipelines when a format's first test runs. */
const TIMEOUT_MS = 180_000;

describe.skipIf(withoutGpu)('matrices on the device', { timeout: TIMEOUT_MS }, () => {
  const device = sharedDevice();

  /** What `run` makes in memory of its own, and how many bytes that memory had. */
  const inScratch = async <T>(run: (scratch: OpScratch) => Promise<T>): Promise<{ output: T; bytes: number }> => {
    const scratch = new OpScratch(device());
    try {
      const output = await run(scratch);
      return { output, bytes: scratch.memory.bytes };
    } finally {
      scratch.free();
    }
  };
  const linear = async (input: LinearCase, maxPartBytes?: number): Promise<Float32Array> => {
    const options = maxPartBytes === undefined ? {} : { maxPartBytes };
    return (await inScratch((scratch) => runLinear(scratch, input, options))).output;
  };

  describe.each(weightFormats)('%s', (format) => {
    it('embed has the bits of the reference, whatever the shape and the parts', async () => {
      await fc.assert(
        fc.asyncProperty(embedCase(format), async ({ input, maxPartBytes }) => {
          const { output } = await inScratch((scratch) => runEmbed(scratch, input, { maxPartBytes }));
          expectEqualBits(output, runOp(input), describeCase(input, maxPartBytes));
        }),
        runs,
      );
    });

    it('linear has the bits of the reference, whatever the shape and the parts', async () => {
      await fc.assert(
        fc.asyncProperty(linearCase(format), async ({ input, maxPartBytes }) => {
          expectEqualBits(await linear(input, maxPartBytes), runOp(input), describeCase(input, maxPartBytes));
        }),
        runs,
      );
    });

    it.each([
      [1, 4200],
      [3, 4200],
      [6, 4200],
    ])('linear of %d rows with %d columns joins segments in more rounds than one', async (count, width) => {
      const input = plainLinear(format, 34, width, count);
      expectEqualBits(await linear(input), runOp(input), describeCase(input));
    });

    it('a row has the same bits alone and in any company', async () => {
      const all = plainLinear(format, 70, 515, 20);
      const expected = await linear(all);
      for (const count of [1, 2, 5, 13]) {
        const some: LinearCase = { ...all, input: all.input.subarray(0, count * all.columns) };
        expectEqualBits(await linear(some), expected.subarray(0, count * all.rows), describeCase(some));
      }
    });
  });

  it('a weight of several parts has a buffer for each', async () => {
    const input = plainLinear('q8', 300, 64, 1);
    const whole = await inScratch((scratch) => runLinear(scratch, input));
    const parts = await inScratch((scratch) => runLinear(scratch, input, { maxPartBytes: 64 }));
    expect(parts.bytes).toBeGreaterThan(whole.bytes);
    expectEqualBits(parts.output, whole.output, 'parts of one row');
  });
});

if (withoutGpu !== undefined) it.skip(`matrices on the device are not tested here (${withoutGpu})`, () => {});

describe('the variant of a linear', () => {
  it('is the one of a row for one row, shares K where there is little work, and else shares weights', () => {
    expect([1, 2, 4, 5, 64, 227, 228].map((count) => linearVariant(count, 576))).toEqual([
      ...['row', 'few', 'few', 'few', 'few', 'few', 'many'],
    ]);
    expect([1, 2, 4, 5].map((count) => linearVariant(count, 49152))).toEqual(['row', 'few', 'few', 'many']);
  });
});

function plainLinear(format: WeightFormat, rowTotal: number, columnCount: number, count: number): LinearCase {
  const random = new Random(rowTotal + count);
  return {
    kind: 'linear',
    format,
    rows: rowTotal,
    columns: columnCount,
    weight: matrix(random, rowTotal, columnCount, format, 'plain'),
    bias: random.floats(rowTotal, 1).map((x) => (Math.abs(x) < 2 ** -60 ? 0 : x)),
    input: random.floats(count * columnCount, 1),
  };
}

function matrix(random: Random, rowTotal: number, columnCount: number, format: WeightFormat, kind: string): WeightData {
  const spec = { kind: 'matrix', name: 'w', rows: rowTotal, columns: columnCount, format } as const;
  const count = rowTotal * columnCount;
  return encodeWeight(
    spec,
    kind === 'wild' ? random.wildFloats(count, -60, 9) : random.floats(count, 1 / Math.sqrt(columnCount)),
  );
}

function describeCase(input: OpCase, maxPartBytes?: number): string {
  const sizes = Object.entries(input).filter(([, value]) => typeof value === 'number');
  const shape = sizes.map(([name, value]) => `${name}=${value}`).join(' ');
  return `${input.kind} ${shape}${input.kind === 'linear' ? ` rowCount=${input.input.length / input.columns}` : ''} parts of ${maxPartBytes ?? 'any'} bytes`;
}
