import { type WeightFormat, weightFormats } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebGpu } from '../src/index.js';
import { type FastLinear, type FastLinearResult, FastLinears } from '../src/kernels/linear-fast.js';
import { rowShapes, shapeOf } from '../src/kernels/linear-fast-shape.js';
import { OpScratch } from '../src/op-runner/op-scratch.js';
import type { DeviceMatrix } from '../src/weights/device-weight.js';
import { uploadWeight } from '../src/weights/upload-weight.js';
import { testGpu, withoutGpu } from './support/gpu.js';
import { checkClose, linearSums64, type Matrix64, rmsNorm64, type Sums64, swigluSums64 } from './support/linear64.js';
import { Random } from './support/random.js';

interface FastCase {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
  readonly rowCount: number;
  readonly result: FastLinearResult['kind'];
  readonly hasNorm: boolean;
  readonly hasBias: boolean;
  readonly gathers: boolean;
  readonly maxPartBytes: number;
  readonly seed: number;
}

const EPSILON = 1e-5;

/** Every part of the kernels is in one of these; each is compiled for three row shapes and three formats. */
const variants = [
  { result: 'store', hasNorm: true, hasBias: true, gathers: true, isWhole: false },
  { result: 'add', hasNorm: false, hasBias: true, gathers: false, isWhole: true },
  { result: 'swiglu', hasNorm: true, hasBias: false, gathers: false, isWhole: true },
  { result: 'two', hasNorm: true, hasBias: false, gathers: false, isWhole: false },
] as const;

/** Sizes at the edges of blocks, tiles and slices, and between. */
const fastCase = (format: WeightFormat, { isWhole, ...variant }: (typeof variants)[number]): fc.Arbitrary<FastCase> =>
  fc.record({
    format: fc.constant(format),
    result: fc.constant(variant.result),
    hasNorm: fc.constant(variant.hasNorm),
    hasBias: fc.constant(variant.hasBias),
    gathers: fc.constant(variant.gathers),
    rows: fc.oneof(fc.constantFrom(1, 3, 4, 31, 32, 33, 63, 64, 65), fc.integer({ min: 1, max: 150 })),
    columns: isWhole
      ? fc.constantFrom(32, 64, 96, 160, 256, 288, 576)
      : fc.oneof(fc.constantFrom(1, 7, 8, 33, 511), fc.integer({ min: 1, max: 400 })),
    rowCount: fc.oneof(fc.constantFrom(1, 2, 8, 9), fc.integer({ min: 1, max: 20 }), fc.constantFrom(129, 140)),
    maxPartBytes: fc.constantFrom(2 ** 27, 2 ** 27, 2 ** 12),
    seed: fc.integer({ min: 0, max: 2 ** 31 }),
  });

describe.skipIf(withoutGpu)('fast linears', () => {
  let gpu: WebGpu;
  let scratch: OpScratch;
  beforeAll(async () => {
    gpu = await WebGpu.open(testGpu);
    scratch = new OpScratch(gpu);
  });
  afterAll(() => gpu.close());

  const check = async (input: FastCase): Promise<void> => {
    try {
      await runFastCase(scratch, input);
    } finally {
      scratch.free();
    }
  };

  describe.each(weightFormats)('of %s', (format) => {
    it.each(variants)(
      'are close to f64 for any shape: $result, norm $hasNorm, whole blocks $isWhole',
      { timeout: 300_000 },
      async (variant) => {
        await fc.assert(fc.asyncProperty(fastCase(format, variant), check), { numRuns: 20, seed: 20261129 });
      },
    );
  });
});

if (withoutGpu !== undefined) it.skip(`fast linears are not tested here (${withoutGpu})`, () => {});

describe('the shape of a fast linear', () => {
  it('is one of its row shapes, and every one of them is somebody’s', () => {
    const seen = new Set<unknown>();
    for (const rowCount of [1, 2, 4, 5, 8, 9, 31, 32, 33, 64, 100, 500]) {
      for (const outputs of [1, 576, 1536, 4096, 49152]) seen.add(shapeOf(rowCount, outputs, 1));
    }
    expect(seen).toEqual(new Set(rowShapes));
  });
});

/** Runs a case and compares it with f64. */
async function runFastCase(scratch: OpScratch, input: FastCase): Promise<void> {
  const { rows, columns, rowCount, hasNorm, gathers } = input;
  const random = new Random(input.seed);
  const inputRows = gathers ? rowCount + 3 : rowCount;
  const values = random.floats(inputRows * columns, 1);
  const norm = hasNorm ? random.floats(columns, 1) : undefined;
  const twoMatrices = input.result === 'swiglu' || input.result === 'two';
  const bias = input.hasBias && !twoMatrices ? random.floats(rows, 1) : undefined;
  const outputs = Int32Array.from({ length: rowCount }, () => random.between(0, inputRows - 1));
  const before = random.floats(rowCount * rows, 1);
  const [first, second] = [matrix(random, input), matrix(random, input)];

  const output = scratch.upload(before);
  const secondOutput = scratch.empty(rowCount * rows * 4);
  const linear: FastLinear = {
    weight: upload(scratch, input, first),
    input: scratch.upload(values),
    output,
    ...(norm && { norm: { weight: scratch.upload(norm), epsilon: EPSILON } }),
    ...(bias && { bias: scratch.upload(bias) }),
    result: resultOf(input.result, () => upload(scratch, input, second), secondOutput),
    inputRow: gathers ? 'outputs' : 'same',
  };
  const calls = new FastLinears().calls(linear);
  const batch = { rowCount, outputs };
  const count = rowCount * rows;
  const got = await scratch.run(calls, batch, output, count);

  const taken = gather(values, columns, gathers ? outputs : Int32Array.from({ length: rowCount }, (_, i) => i));
  const x = norm ? rmsNorm64(taken, norm, EPSILON) : taken;
  const sums = linearSums64(first, x, bias);
  const where = JSON.stringify(input);
  checkClose(
    got,
    expected(input.result, sums, before, () => linearSums64(second, x)),
    where,
  );
  if (input.result !== 'two') return;
  scratch.gpu.device.queue.writeBuffer(output, 0, new Float32Array(before.length).fill(Number.NaN));
  checkClose(await scratch.run(calls, batch, secondOutput, count), linearSums64(second, x), `${where}, second`);
}

function expected(kind: FastLinearResult['kind'], sums: Sums64, before: Float32Array, second: () => Sums64): Sums64 {
  switch (kind) {
    case 'store':
    case 'two':
      return sums;
    case 'add':
      return {
        values: sums.values.map((value, i) => value + before[i]!),
        magnitudes: sums.magnitudes.map((value, i) => value + Math.abs(before[i]!)),
      };
    case 'swiglu':
      return swigluSums64(sums, second());
  }
}

function resultOf(kind: FastLinearResult['kind'], second: () => DeviceMatrix, output: GPUBuffer): FastLinearResult {
  switch (kind) {
    case 'store':
    case 'add':
      return { kind };
    case 'swiglu':
      return { kind, up: second() };
    case 'two':
      return { kind, weight: second(), output };
  }
}

function matrix(random: Random, { rows, columns, format }: FastCase): Matrix64 {
  const spec = { kind: 'matrix', name: 'w', rows, columns, format } as const;
  const data = encodeWeight(spec, random.floats(rows * columns, 1 / Math.sqrt(columns)));
  if (data.kind === 'vector') throw new Error('a matrix is encoded as one');
  return { rows, columns, data };
}

function upload(
  scratch: OpScratch,
  { rows, columns, format, maxPartBytes }: FastCase,
  { data }: Matrix64,
): DeviceMatrix {
  const spec = { kind: 'matrix', name: 'w', rows, columns, format } as const;
  const weight = uploadWeight(scratch.gpu, scratch.memory, spec, data, { maxPartBytes });
  if (weight.kind !== 'matrix') throw new Error('a matrix is uploaded as one');
  return weight;
}

function gather(values: Float32Array, width: number, rows: Int32Array): Float64Array {
  const taken = new Float64Array(rows.length * width);
  rows.forEach((row, i) => {
    taken.set(values.subarray(row * width, (row + 1) * width), i * width);
  });
  return taken;
}
