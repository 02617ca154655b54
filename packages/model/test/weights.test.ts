import type { WeightSpec } from '@stet/backend';
import { encodeQ8 } from '@stet/backend/numerics';
import { memorySource, openCheckpoint, tensorWeights } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { safetensors, type TensorData } from './support/small-model.js';

const F = 'model.safetensors';
async function weightsOf(...tensors: TensorData[]) {
  const source = memorySource({ [F]: safetensors(tensors) });
  const { tensors: found } = await openCheckpoint(source, new Set([F]));
  return tensorWeights(source, found);
}

const bytesOf = (array: Float32Array | Uint16Array): Uint8Array => new Uint8Array(array.buffer);
const matrix = (name: string, rows: number, columns: number, format: 'bf16' | 'q8' = 'bf16'): WeightSpec => ({
  kind: 'matrix',
  name,
  rows,
  columns,
  format,
});
const f32 = (name: string, shape: number[], values: number[]): TensorData => ({
  name,
  dtype: 'F32',
  shape,
  bytes: bytesOf(Float32Array.from(values)),
});
const u16 = (name: string, dtype: string, shape: number[], bits: number[]): TensorData => ({
  name,
  dtype,
  shape,
  bytes: bytesOf(Uint16Array.from(bits)),
});

/** Many more rows than one chunk holds. */
function largeMatrix(rows: number, columns: number): Float32Array {
  let seed = 1;
  return Float32Array.from({ length: rows * columns }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
    return seed / 2 ** 33;
  });
}

describe('weights of a checkpoint', () => {
  it('keep their bf16 bits, and lose what lies below the domain', async () => {
    const weights = await weightsOf(u16('w', 'BF16', [2, 2], [0x3f80, 0xbf81, 0x2b7f, 0x2b80]));
    expect(await weights.read(matrix('w', 2, 2))).toEqual({
      kind: 'bf16',
      bits: Uint16Array.of(0x3f80, 0xbf81, 0, 0x2b80),
    });
  });

  it('are read anew each time, so that a caller may change them', async () => {
    const weights = await weightsOf(u16('w', 'BF16', [1, 1], [0x3f80]));
    const first = await weights.read(matrix('w', 1, 1));
    if (first.kind === 'bf16') first.bits.fill(0);
    expect(await weights.read(matrix('w', 1, 1))).toEqual({ kind: 'bf16', bits: Uint16Array.of(0x3f80) });
  });

  it('in F32 are rounded to the nearest bf16, ties to even', async () => {
    const values = [1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, -(1 + 2 ** -8)];
    const weights = await weightsOf(f32('w', [1, 5], values));
    expect(await weights.read(matrix('w', 1, 5))).toEqual({
      kind: 'bf16',
      bits: Uint16Array.of(0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xbf80),
    });
  });

  it('in F16 have the value of every half, subnormal ones too', async () => {
    const halves = Array.from({ length: 0x7c00 }, (_, bits) => [bits, bits | 0x8000]).flat();
    const weights = await weightsOf(u16('v', 'F16', [halves.length], halves));
    const data = await weights.read({ kind: 'vector', name: 'v', size: halves.length, role: 'norm' });
    if (data.kind !== 'vector') throw new Error(data.kind);
    for (const [i, bits] of halves.entries()) {
      const [exponent, mantissa] = [(bits >> 10) & 31, bits & 1023];
      const magnitude = exponent === 0 ? mantissa * 2 ** -24 : (1 + mantissa / 1024) * 2 ** (exponent - 15);
      expect(Object.is(data.values[i], bits & 0x8000 ? -magnitude : magnitude), `half ${bits}`).toBe(true);
    }
  });

  it.each([
    ['F16', 0x7c00],
    ['F16', 0x7e01],
    ['BF16', 0x7f80],
    ['BF16', 0xffc0],
    ['BF16', 0x4481],
  ])('in %s that are %i are refused with tensor, index and file', async (dtype, bits) => {
    const weights = await weightsOf(u16('w', dtype, [1, 2], [0, bits]));
    for (const spec of [matrix('w', 1, 2), { kind: 'vector', name: 'w', size: 2, role: 'norm' } as const]) {
      if (spec.kind === 'vector') continue;
      await expect(weights.read(spec)).rejects.toMatchObject({
        code: 'STET_ERR_BAD_WEIGHTS',
        message: expect.stringMatching(/^model\.safetensors: w: element 1 /),
      });
    }
  });

  it('larger than a chunk are the same as in one piece', async () => {
    const [rows, columns] = [1500, 3001];
    const values = largeMatrix(rows, columns);
    const weights = await weightsOf({
      name: 'w',
      dtype: 'F32',
      shape: [rows, columns],
      bytes: bytesOf(values.slice()),
    });
    const q8 = await weights.read(matrix('w', rows, columns, 'q8'));
    if (q8.kind !== 'q8') throw new Error(q8.kind);
    const { quants, scales } = encodeQ8('w', values, rows, columns);
    expect([q8.quants.length, q8.scales.length]).toEqual([quants.length, scales.length]);
    expect(q8.quants.findIndex((quant, i) => quant !== quants[i])).toBe(-1);
    expect(q8.scales.findIndex((scale, i) => scale !== scales[i])).toBe(-1);
    const bf16 = await weights.read(matrix('w', rows, columns));
    if (bf16.kind !== 'bf16') throw new Error(bf16.kind);
    const words = new Uint32Array(values.buffer);
    expect(bf16.bits.length).toBe(values.length);
    const wrong = bf16.bits.findIndex((bits, i) => bits !== (words[i]! + 0x7fff + ((words[i]! >>> 16) & 1)) >>> 16);
    expect(wrong).toBe(-1);
  });

  it('name the rows where a large matrix leaves the domain', async () => {
    const [rows, columns] = [1500, 3001];
    const values = largeMatrix(rows, columns);
    values[1400 * columns] = Number.NaN;
    const weights = await weightsOf({ name: 'w', dtype: 'F32', shape: [rows, columns], bytes: bytesOf(values) });
    await expect(weights.read(matrix('w', rows, columns))).rejects.toMatchObject({
      message: expect.stringContaining('w from row 1386: element 42014'),
    });
  });

  it.each<[string, WeightSpec, string, RegExp]>([
    ['that are not there', matrix('x', 1, 2), 'STET_ERR_MISSING_TENSOR', /no tensor x/],
    [
      'of another shape',
      matrix('w', 2, 1),
      'STET_ERR_BAD_TENSOR',
      /model\.safetensors: w has the shape \[1, 2\], expected \[2, 1\]/,
    ],
    ['of another rank', { kind: 'vector', name: 'w', size: 2, role: 'norm' }, 'STET_ERR_BAD_TENSOR', /expected \[2\]/],
    ['of another type', matrix('i', 1, 2), 'STET_ERR_BAD_TENSOR', /type I16/],
  ])('%s are refused before anything is read', async (_what, spec, code, message) => {
    const weights = await weightsOf(u16('w', 'BF16', [1, 2], [0, 0]), u16('i', 'I16', [1, 2], [0, 0]));
    await expect(weights.read(spec)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it('accept parts of a larger buffer from a source', async () => {
    const file = safetensors([f32('w', [1, 2], [1, 2])]);
    const source = memorySource({ [F]: file });
    const whole = new Uint8Array(file.length + 3);
    whole.set(file, 3);
    const sharing = {
      ...source,
      read: async (_name: string, start: number, end: number) => whole.subarray(3 + start, 3 + end),
    };
    const { tensors } = await openCheckpoint(sharing, new Set([F]));
    expect(await tensorWeights(sharing, tensors).read(matrix('w', 1, 2))).toEqual({
      kind: 'bf16',
      bits: Uint16Array.of(0x3f80, 0x4000),
    });
  });
});
