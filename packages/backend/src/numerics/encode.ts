import { assert, assertNever } from '../errors.js';
import type { WeightFormat, WeightSpec } from '../plan.js';
import type { WeightData } from '../weights.js';
import { badWeight } from './bad-weight.js';
import { encodeQ4 } from './encode-q4.js';
import { encodeQ8 } from './encode-q8.js';

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
    case 'q4':
      return { kind: 'q4', ...encodeQ4(name, values, rows, columns) };
    default:
      return assertNever(format);
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
  let headroom = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const magnitude = roundedMagnitude(word);
    headroom |= BF16_MAX - magnitude;
    target[i] = (((word >>> 16) & 0x8000) | magnitude) & keepMask(magnitude);
  }
  if (headroom < 0) {
    badWeight(
      name,
      words.findIndex((word) => roundedMagnitude(word) > BF16_MAX),
      OUTSIDE_BF16,
    );
  }
  return target;
}

/** The same for values that are bf16 already; changes `bits` in place where the domain asks for it. */
export function checkBf16(name: string, bits: Uint16Array): Uint16Array {
  let headroom = 0;
  for (let i = 0; i < bits.length; i++) {
    const magnitude = bits[i]! & 0x7fff;
    headroom |= BF16_MAX - magnitude;
    bits[i] = bits[i]! & keepMask(magnitude);
  }
  if (headroom < 0) {
    badWeight(
      name,
      bits.findIndex((word) => (word & 0x7fff) > BF16_MAX),
      OUTSIDE_BF16,
    );
  }
  return bits;
}

/** 2^-40 and 2^10 as bf16 bits. */
const BF16_MIN = 0x2b80;
const BF16_MAX = 0x4480;

const OUTSIDE_BF16 = 'is not finite or above 2^10';

/** The upper half of f32 bits, rounded half to even, without its sign; at most 0x8000. */
function roundedMagnitude(word: number): number {
  // The carry of a NaN with a full mantissa ends in bit 15, above the largest magnitude as it should.
  const half = (0x7fff + ((word >>> 16) & 1)) | 0;
  return (((word & 0x7fffffff) + half) | 0) >>> 16;
}

/** All ones, or 0 for magnitudes below the domain: weights are often 0, at places that no branch predictor foresees. */
function keepMask(magnitude: number): number {
  return ~((magnitude - BF16_MIN) >> 31);
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
