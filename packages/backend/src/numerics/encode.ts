import { assert, StetError } from '../errors.js';
import type { WeightFormat, WeightSpec } from '../plan.js';
import type { WeightData } from '../weights.js';
import { exponentOf64, pow2, roundHalfEven } from './bits.js';
import { BLOCK } from './constants.js';

/** Turns f32 values of a tensor into the data of its spec, or throws `STET_ERR_BAD_WEIGHTS` that names tensor and index. */
export function encodeWeight(spec: WeightSpec, values: Float32Array): WeightData {
  if (spec.kind === 'vector') return { kind: 'vector', values: checkVector(spec.name, spec.role, values) };
  return encodeMatrix(spec.name, spec.format, values, spec.rows, spec.columns);
}

function encodeMatrix(
  name: string,
  format: WeightFormat,
  values: Float32Array,
  rows: number,
  columns: number,
): WeightData {
  switch (format) {
    case 'bf16':
      return { kind: 'bf16', bits: encodeBf16(name, values) };
    case 'q8':
      return { kind: 'q8', ...encodeQ8(name, values, rows, columns) };
  }
}

/**
 * bf16 bits, round to nearest even; |w| < 2^-40 becomes 0 and |w| > 2^10 is an error. `target` has the length of
 * `values`; by default it is new.
 */
export function encodeBf16(
  name: string,
  values: Float32Array,
  target: Uint16Array = new Uint16Array(values.length),
): Uint16Array {
  assert(target.length === values.length, `${name}: ${values.length} values for ${target.length} places`);
  const words = new Int32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const half = (0x7fff + ((word >>> 16) & 1)) | 0;
    // The carry of a NaN with a full mantissa ends in bit 15, above the largest magnitude as it should.
    const magnitude = (((word & 0x7fffffff) + half) | 0) >>> 16;
    if (magnitude > BF16_MAX) badWeight(name, i, 'is not finite or above 2^10');
    target[i] = magnitude < BF16_MIN ? 0 : ((word >>> 16) & 0x8000) | magnitude;
  }
  return target;
}

/** The same for values that are bf16 already; changes `bits` in place where the domain asks for it. */
export function checkBf16(name: string, bits: Uint16Array): Uint16Array {
  for (let i = 0; i < bits.length; i++) bits[i] = domainBf16(name, i, bits[i]!);
  return bits;
}

/** 2^-40 and 2^10 as bf16 bits. */
const BF16_MIN = 0x2b80;
const BF16_MAX = 0x4480;

function domainBf16(name: string, index: number, bits: number): number {
  const magnitude = bits & 0x7fff;
  if (magnitude < BF16_MIN) return 0;
  if (magnitude > BF16_MAX) badWeight(name, index, 'is not finite or above 2^10');
  return bits;
}

export interface Q8Arrays {
  /** (rows × blockCount·32), the last block of a row padded with zeros. */
  readonly quants: Int8Array;
  /** (rows × blockCount). */
  readonly scales: Float32Array;
}

/**
 * int8 blocks of 32 along a row: the smallest scale of 5 significant bits with amax <= 127·scale, quants rounded half
 * to even; made in f64. `target` must be zero where rows end in padding; by default it is new.
 */
export function encodeQ8(
  name: string,
  values: Float32Array,
  rows: number,
  columns: number,
  target: Q8Arrays = emptyQ8(rows, columns),
): Q8Arrays {
  const { quants, scales } = target;
  const blockCount = Math.ceil(columns / BLOCK);
  assert(values.length === rows * columns, `${name}: ${values.length} values for ${rows} rows of ${columns}`);
  assert(
    scales.length === rows * blockCount && quants.length === scales.length * BLOCK,
    `${name}: no place for ${rows} rows`,
  );
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blockCount; block++) {
      const start = row * columns + block * BLOCK;
      const end = Math.min(start + BLOCK, (row + 1) * columns);
      let largest = 0;
      for (let i = start; i < end; i++) {
        const magnitude = Math.abs(values[i]!);
        if (!(magnitude <= Q8_MAX)) badWeight(name, i, `is not finite or above ${Q8_MAX}`);
        if (magnitude > largest) largest = magnitude;
      }
      const scale = q8Scale(largest);
      const place = row * blockCount + block;
      scales[place] = scale;
      const shift = place * BLOCK - start;
      for (let i = start; i < end; i++) quants[shift + i] = roundHalfEven(values[i]! / scale);
    }
  }
  return target;
}

function emptyQ8(rows: number, columns: number): Q8Arrays {
  const blockCount = rows * Math.ceil(columns / BLOCK);
  return { quants: new Int8Array(blockCount * BLOCK), scales: new Float32Array(blockCount) };
}

const Q8_SCALE_MAX = (31 / 16) * 2 ** 10;
const Q8_SCALE_MIN = 2 ** -40;
const Q8_MAX = 127 * Q8_SCALE_MAX;

/** The smallest m·2^k, m of 5 significant bits, with largest <= 127·scale. */
export function q8Scale(largest: number): number {
  if (!(largest > 127 * Q8_SCALE_MIN)) return Q8_SCALE_MIN;
  const exact = largest / 127;
  const unit = pow2(exponentOf64(exact) - 4);
  return Math.ceil(exact / unit) * unit;
}

/** Norm weights: |w| <= 2^40. Biases: 0, or 2^-80 <= |b| <= 2^40. */
export function checkVector(name: string, role: 'norm' | 'bias', values: Float32Array): Float32Array {
  for (let i = 0; i < values.length; i++) {
    const magnitude = Math.abs(values[i]!);
    if (!(magnitude <= 2 ** 40)) badWeight(name, i, 'is not finite or above 2^40');
    if (role === 'bias' && magnitude !== 0 && magnitude < 2 ** -80) badWeight(name, i, 'is a bias below 2^-80');
  }
  return values;
}

function badWeight(name: string, index: number, what: string): never {
  throw new StetError('STET_ERR_BAD_WEIGHTS', `${name}: element ${index} ${what}`);
}
