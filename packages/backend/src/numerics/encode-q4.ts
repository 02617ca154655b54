import { assert } from '../errors.js';
import { badWeight } from './bad-weight.js';
import { bitsOf, exponentOf64, pow2, roundHalfEven } from './bits.js';
import { BLOCK } from './constants.js';

export interface Q4Arrays {
  /** (rows × blockCount × 16): byte i of a block has the quant of element i in its low half, of element i + 16 in its high half. */
  readonly nibbles: Uint8Array;
  /** (rows × blockCount), bf16 bits. */
  readonly scales: Uint16Array;
  readonly minima: Uint16Array;
}

/** Largest weight; then scale and minimum, of at most 2^10, hold every block. */
const Q4_MAX = 2 ** 10;
const Q4_LEAST = 2 ** -40;
const LARGEST_QUANT = 15;

/**
 * Blocks of 32 along a row as s·q + m, made in f64: m = bf16(least), s = bf16((largest - m) / 15),
 * q = half-even((w - m) / s) within 0..15. `target` must be zero where rows end in padding; by default it is new.
 */
export function encodeQ4(
  name: string,
  values: Float32Array,
  rows: number,
  columns: number,
  target: Q4Arrays = emptyQ4(rows, columns),
): Q4Arrays {
  const { nibbles, scales, minima } = target;
  const blockCount = Math.ceil(columns / BLOCK);
  assert(values.length === rows * columns, `${name}: ${values.length} values for ${rows} rows of ${columns}`);
  assert(
    scales.length === rows * blockCount && minima.length === scales.length && nibbles.length === scales.length * 16,
    `${name}: no place for ${rows} rows`,
  );
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blockCount; block++) {
      const start = row * columns + block * BLOCK;
      const end = Math.min(start + BLOCK, (row + 1) * columns);
      const place = row * blockCount + block;
      const { scale, minimum } = fitQ4(name, values, start, end);
      scales[place] = bitsOf(scale) >>> 16;
      minima[place] = bitsOf(minimum) >>> 16;
      for (let i = start; i < end; i++) {
        const quant = q4Quant(values[i]!, scale, minimum);
        const within = i - start;
        nibbles[place * 16 + (within & 15)]! |= within < 16 ? quant : quant << 4;
      }
    }
  }
  return target;
}

export function emptyQ4(rows: number, columns: number): Q4Arrays {
  const blockCount = rows * Math.ceil(columns / BLOCK);
  return {
    nibbles: new Uint8Array(blockCount * 16),
    scales: new Uint16Array(blockCount),
    minima: new Uint16Array(blockCount),
  };
}

function fitQ4(name: string, values: Float32Array, start: number, end: number): { scale: number; minimum: number } {
  let least = Number.POSITIVE_INFINITY;
  let largest = Number.NEGATIVE_INFINITY;
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    if (!(Math.abs(value) <= Q4_MAX)) badWeight(name, i, 'is not finite or above 2^10');
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  const minimum = q4Parameter(least);
  return { minimum, scale: q4Parameter((largest - minimum) / LARGEST_QUANT) };
}

function q4Quant(value: number, scale: number, minimum: number): number {
  if (scale === 0) return 0;
  return Math.max(0, Math.min(LARGEST_QUANT, roundHalfEven((value - minimum) / scale)));
}

/** x rounded once to bf16, half to even; below 2^-40 +0. */
function q4Parameter(x: number): number {
  const magnitude = Math.abs(x);
  if (magnitude < Q4_LEAST) return 0;
  const unit = pow2(exponentOf64(magnitude) - 7);
  return roundHalfEven(x / unit) * unit;
}
