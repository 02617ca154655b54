import { type WeightData, type WeightFormat, type WeightSpec, weightFormats } from '@stet/backend';
import { encodeWeight } from '@stet/backend/numerics';
import {
  type FileSource,
  floatTypes,
  memorySource,
  type StoredTensor,
  type TensorRows,
  type TensorType,
  tensorWeights,
} from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exactValues } from '../src/weights/tensor-weights.js';

const FILE = 'weights.bin';

/** Four values to a block: a scale byte, then an int8 each, as small as a block type can be. */
const int8Blocks: TensorType = {
  name: 'I8_BLOCK',
  blockValues: 4,
  blockBytes: 5,
  decode: (bytes, target) => {
    for (let block = 0; block * 5 < bytes.length; block++) {
      for (let i = 0; i < 4; i++) {
        target[block * 4 + i] = (((bytes[block * 5 + 1 + i]! << 24) >> 24) * bytes[block * 5]!) / 1024;
      }
    }
  },
};

interface Stored {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly source: FileSource;
  /** The decoded values, row-major as in the file. */
  readonly values: Float32Array;
  readonly reads: { start: number; end: number }[];
}

/** A tensor of pseudo-random bytes that lies behind 3 others. */
function stored(type: TensorType, shape: readonly number[], name = 't'): Stored {
  const count = shape.reduce((product, size) => product * size, 1);
  const bytes = new Uint8Array(3 + (count / type.blockValues) * type.blockBytes);
  let seed = 7;
  for (let i = 0; i < bytes.length; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
    // Below 2 in every float type, whichever byte it is.
    bytes[i] = ((seed >>> 16) & 0xff) % 64;
  }
  const values = new Float32Array(count);
  type.decode?.(bytes.slice(3), values);
  const memory = memorySource({ [FILE]: bytes });
  const reads: { start: number; end: number }[] = [];
  const source: FileSource = {
    ...memory,
    read: (file, start, end) => {
      reads.push({ start, end });
      return memory.read(file, start, end);
    },
  };
  const tensor: StoredTensor = { name, file: FILE, type, shape, start: 3, end: bytes.length };
  return { tensors: new Map([[name, tensor]]), source, values, reads };
}

const matrix = (rows: number, columns: number, format: WeightFormat = 'bf16'): WeightSpec & { kind: 'matrix' } => ({
  kind: 'matrix',
  name: 'w',
  rows,
  columns,
  format,
});
const at = (place: Omit<TensorRows, 'tensor'>) => (): TensorRows => ({ tensor: 't', ...place });

/** What the definition gives for these values. */
function expected(spec: WeightSpec & { kind: 'matrix' }, values: Float32Array): WeightData {
  return encodeWeight(spec, values);
}

/** Rows 2i and 2i + 1 of each head at i and i + headSize / 2. */
function unpaired(values: Float32Array, columns: number, headSize: number): Float32Array {
  const result = new Float32Array(values.length);
  const rows = values.length / columns;
  for (let head = 0; head < rows / headSize; head++) {
    for (let i = 0; i < headSize / 2; i++) {
      for (const half of [0, 1]) {
        const from = head * headSize + 2 * i + half;
        const to = head * headSize + i + (half * headSize) / 2;
        result.set(values.subarray(from * columns, (from + 1) * columns), to * columns);
      }
    }
  }
  return result;
}

describe('weights from stored tensors', () => {
  const types = [floatTypes.F32, floatTypes.F16, floatTypes.BF16, int8Blocks];

  it('have the values of any type, in any slice and order of rows, in any format', async () => {
    const shapes = fc.record({
      type: fc.constantFrom(...types),
      format: fc.constantFrom(...weightFormats),
      headCount: fc.integer({ min: 1, max: 4 }),
      headSize: fc.constantFrom(2, 4, 6, 16),
      columns: fc.constantFrom(4, 8, 36, 100),
      before: fc.nat(5),
      after: fc.nat(5),
      order: fc.constantFrom('plan' as const, 'pairs' as const),
    });
    await fc.assert(
      fc.asyncProperty(shapes, async ({ type, format, headCount, headSize, columns, before, after, order }) => {
        const rows = headCount * headSize;
        const tensorRows = before + rows + after;
        const { tensors, source, values } = stored(type, [tensorRows, columns]);
        const spec = matrix(rows, columns, format);
        const place = at({
          slice: { firstRow: before, tensorRows },
          ...(order === 'pairs' && { headRows: { order, headSize } }),
        });
        const own = values.slice(before * columns, (before + rows) * columns);
        const inOrder = order === 'pairs' ? unpaired(own, columns, headSize) : own;
        expect(await tensorWeights(source, tensors, place).read(spec)).toEqual(expected(spec, inOrder));
        expect(await exactValues(source, tensors, place, spec)).toEqual(inOrder);
      }),
      { numRuns: 300, seed: 3 },
    );
  });

  it.each([1, 7])('of %i rows are read alone where other weights share the tensor', async (rows) => {
    const { tensors, source, reads } = stored(int8Blocks, [40, 8]);
    await tensorWeights(source, tensors, at({ slice: { firstRow: 11, tensorRows: 40 } })).read(matrix(rows, 8));
    expect(reads).toEqual([{ start: 3 + 11 * 10, end: 3 + (11 + rows) * 10 }]);
  });

  it.each(['bf16', 'q8'] as const)(
    'larger than what is read at once have the same %s bits, heads in pairs too',
    async (format) => {
      const [rows, columns, headSize] = [96 * 64, 1024, 96];
      const { tensors, source, values, reads } = stored(floatTypes.F32, [rows, columns]);
      const spec = matrix(rows, columns, format);
      const same = (data: WeightData, other: WeightData): boolean =>
        data.kind === 'bf16' && other.kind === 'bf16'
          ? Buffer.compare(Buffer.from(data.bits.buffer), Buffer.from(other.bits.buffer)) === 0
          : data.kind === 'q8' &&
            other.kind === 'q8' &&
            Buffer.compare(Buffer.from(data.quants.buffer), Buffer.from(other.quants.buffer)) === 0 &&
            Buffer.compare(Buffer.from(data.scales.buffer), Buffer.from(other.scales.buffer)) === 0;
      const pairs = at({ headRows: { order: 'pairs', headSize } });
      const data = await tensorWeights(source, tensors, pairs).read(spec);
      expect(same(data, expected(spec, unpaired(values, columns, headSize)))).toBe(true);
      expect(reads.length).toBeGreaterThan(1);
      for (const { start, end } of reads) {
        expect(end - start).toBeLessThanOrEqual(16 * 2 ** 20);
        expect((start - 3) % (headSize * columns * 4)).toBe(0);
      }
      const plain = await tensorWeights(source, tensors, at({})).read(spec);
      expect(same(plain, expected(spec, values))).toBe(true);
      expect(same(plain, data)).toBe(false);
    },
  );

  it('that are vectors may be slices, blocks and heads in pairs too', async () => {
    const { tensors, source, values } = stored(int8Blocks, [24]);
    const read = (size: number, place: Omit<TensorRows, 'tensor'>): Promise<WeightData> =>
      tensorWeights(source, tensors, at(place)).read({ kind: 'vector', name: 'w', size, role: 'bias' });
    expect(await read(24, {})).toEqual({ kind: 'vector', values });
    const spec = { kind: 'vector', name: 'w', size: 24, role: 'bias' } as const;
    expect(await exactValues(source, tensors, at({}), spec)).toEqual(values);
    const slice = { firstRow: 5, tensorRows: 24 };
    expect(await read(8, { slice })).toEqual({ kind: 'vector', values: values.slice(5, 13) });
    expect(await read(8, { slice, headRows: { order: 'pairs', headSize: 4 } })).toEqual({
      kind: 'vector',
      values: unpaired(values.slice(5, 13), 1, 4),
    });
  });

  it('do not depend on what else is read at the same time', async () => {
    const { tensors, source, values } = stored(int8Blocks, [64, 36]);
    const weights = tensorWeights(source, tensors, at({}));
    const specs = [matrix(64, 36), matrix(64, 36, 'q8'), matrix(64, 36)];
    const all = await Promise.all(specs.map((spec) => weights.read(spec)));
    expect(all).toEqual(specs.map((spec) => expected(spec, values)));
  });

  it.each<[string, TensorType, readonly number[], Omit<TensorRows, 'tensor'>, RegExp]>([
    ['whose tensor has other rows', floatTypes.F32, [5, 8], {}, /t has the shape \[5, 8\], expected \[4, 8\]/],
    [
      'whose shared tensor has other rows',
      floatTypes.F32,
      [4, 8],
      { slice: { firstRow: 2, tensorRows: 6 } },
      /t has the shape \[4, 8\], expected \[6, 8\]/,
    ],
    [
      'whose type has no values',
      { name: 'I64', blockValues: 1, blockBytes: 8 },
      [4, 8],
      {},
      /type I64, which is not supported/,
    ],
    [
      'whose rows are no whole blocks',
      { ...int8Blocks, name: 'WIDE', blockValues: 16, blockBytes: 17 },
      [4, 8],
      {},
      /rows of 8 values, which are no whole blocks of WIDE \(16 values\)/,
    ],
  ])('%s are refused', async (_what, type, shape, place, message) => {
    const { tensors, source, reads } = stored(type, shape);
    await expect(tensorWeights(source, tensors, at(place)).read(matrix(4, 8))).rejects.toMatchObject({
      code: 'STET_ERR_BAD_TENSOR',
      message: expect.stringMatching(message),
    });
    expect(reads).toEqual([]);
  });

  it('outside of the domain are refused by the names of file, tensor and weight', async () => {
    const huge: TensorType = { ...int8Blocks, decode: (_bytes, target) => target.fill(2000) };
    const { tensors, source } = stored(huge, [4, 8]);
    await expect(tensorWeights(source, tensors, at({})).read(matrix(4, 8))).rejects.toMatchObject({
      code: 'STET_ERR_BAD_WEIGHTS',
      message: 'weights.bin: t: w: element 0 is not finite or above 2^10',
    });
  });
});
