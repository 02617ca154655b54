import { BLOCK, bitsOf, pow2 } from '@stet/backend/numerics';
import { rne } from '../primitives.js';

/**
 * Values in blocks of 32: value i is (128·high[i] + low[i]) · 2^(exponents[floor(i / 32)] - 7), high in -127..127, low in
 * -64..63. Activations of `q8` linears, queries, and K/V are stored so.
 */
export interface Q15 {
  readonly high: Int8Array;
  readonly low: Int8Array;
  readonly exponents: Int8Array;
}

/** Room for `count` values, a multiple of 32. */
export function allocateQ15(count: number): Q15 {
  return { high: new Int8Array(count), low: new Int8Array(count), exponents: new Int8Array(count / BLOCK) };
}

const LARGEST = 16256;

/** Quantizes input[offset .. offset + count - 1] to whole blocks of `target` from value `targetOffset` on; the rest of the last one is 0. */
export function quantizeQ15(
  input: Float32Array,
  offset: number,
  count: number,
  target: Q15,
  targetOffset: number,
): void {
  for (let start = 0; start < count; start += BLOCK) {
    const end = Math.min(start + BLOCK, count);
    const exponent = blockExponent(input, offset + start, offset + end);
    const scale = pow2(7 - exponent);
    target.exponents[(targetOffset + start) / BLOCK] = exponent;
    for (let i = start; i < start + BLOCK; i++) {
      const scaled = i < end ? Math.fround(input[offset + i] * scale) : 0;
      const quant = rne(Math.max(-LARGEST, Math.min(LARGEST, scaled)));
      const high = (quant + 64) >> 7;
      target.high[targetOffset + i] = high;
      target.low[targetOffset + i] = quant - high * 128;
    }
  }
}

/** The smallest exponent, of -40..20, whose largest quant 127·2^7 reaches the largest magnitude. */
export function blockExponent(input: Float32Array, start: number, end: number): number {
  let largest = 0;
  for (let i = start; i < end; i++) {
    const magnitude = bitsOf(input[i]) & 0x7fffffff;
    if (magnitude > largest) largest = magnitude;
  }
  const exponent = ((largest + 0x1ffff) >>> 23) - 133;
  return Math.max(-40, Math.min(20, exponent));
}
