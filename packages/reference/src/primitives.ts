import { bitsOf, fromBits, pow2 } from '@stet/backend/numerics';

/**
 * The primitives of docs/NUMERICS.md. Every f32 operation is rounded by Math.fround; a product that is left unrounded
 * is exact in f32 by the rules of that page, so it makes no difference that JavaScript holds it in f64.
 */

const { fround } = Math;

/** 16 significant bits: below 2^-50 zero, capped at 2^30. The activations of a `bf16` linear. */
export function r16(x: number): number {
  const bits = bitsOf(x);
  let magnitude = bits & 0x7fffffff;
  if (magnitude < 0x26800000) return 0;
  if (magnitude > 0x4e800000) magnitude = 0x4e800000;
  return fromBits((bits & 0x80000000) | ((magnitude + 0x80) & ~0xff));
}

/** Clears the last bit: an integer operation between a rounded product and the sum that it feeds. */
export function b1(x: number): number {
  return fromBits(bitsOf(x) & ~1);
}

/** 2^(fraction / 65536) in Q15, 32768..65535, for fraction 0..65535. Relative error at most 2^-15.8, monotone. */
export function exp2q(fraction: number): number {
  const a3 = 27394 + (Math.imul(fraction, 56308) >>> 19);
  const a2 = 31625 + (Math.imul(fraction, a3) >>> 18);
  const a1 = 45420 + (Math.imul(fraction, a2) >>> 17);
  return 32768 + ((Math.imul(fraction, a1) + 65536) >>> 17);
}

/** T: x clamped to ±2^30 and truncated. As Q16 its integer part is t >> 16 and its fraction t & 0xffff. */
export function truncateQ16(x: number): number {
  return Math.trunc(Math.max(-1073741824, Math.min(1073741824, x))) | 0;
}

/** 1/x of a positive normal x, 16 significant bits, relative error at most 2^-15.4. */
export function recip(x: number): number {
  const bits = bitsOf(x);
  const exponent = (bits >>> 23) - 127;
  const mantissa = (mantissa24(bits) + 0x80) >>> 8;
  return roundedQuotient(mantissa) * pow2(-exponent - 16);
}

/** 1/sqrt(x) of a positive normal x, 16 significant bits, relative error at most 2^-15.4. */
export function rsqrt(x: number): number {
  const bits = bitsOf(x);
  const exponent = (bits >>> 23) - 127;
  const odd = exponent & 1;
  const value = mantissa24(bits) * (odd ? 256 : 128);
  const half = (exponent - 30 - odd) / 2;
  return roundedQuotient(roundedRoot(value)) * pow2(-half - 31);
}

/** 24 bits, the leading one included. */
function mantissa24(bits: number): number {
  return (bits & 0x7fffff) | 0x800000;
}

/** floor((2^31 + (d >> 1)) / d) of 32768 <= d <= 65536. An f64 quotient of integers below 2^32 has the exact floor. */
export function roundedQuotient(divisor: number): number {
  return Math.floor((0x80000000 + (divisor >>> 1)) / divisor);
}

/** The integer next to sqrt(value), value below 2^32. f64 sqrt is correctly rounded and so is its floor. */
function roundedRoot(value: number): number {
  const root = Math.floor(Math.sqrt(value));
  return value - root * root > root ? root + 1 : root;
}

/** f32 of an i32, nearest even, built from exact pieces as devices that do not promise the rounding of a cast do. */
export function itof(value: number): number {
  return fround((value >> 12) * 4096 + (value & 4095));
}

/** value >> shift, rounded half up; 0 from a shift of 16 on. value below 2^15, shift >= 0. */
export function rshift(value: number, shift: number): number {
  return shift >= 16 ? 0 : (value + ((1 << shift) >> 1)) >> shift;
}

const FLUSH = pow2(-90);

/** sc: x·2^-shift; 0 from a shift of 64 on, and where the result is below 2^-90. */
export function scaleDown(x: number, shift: number): number {
  if (shift >= 64) return 0;
  const scaled = x * pow2(-shift);
  return Math.abs(scaled) < FLUSH ? 0 : scaled;
}

/** Nearest integer, ties to even, of |x| < 2^51; never -0. JavaScript keeps the order of these two operations. */
export function rne(x: number): number {
  return x + 6755399441055744 - 6755399441055744;
}

/** The high part of x, 12 significant bits by truncation; below 2^-50 zero, capped at 2^50. */
export function splitHigh(x: number): number {
  return fromBits(clampedBits(x) & ~0xfff);
}

/** The rest of x below {@link splitHigh}, 12 significant bits; high + low is the clamped x. */
export function splitLow(x: number): number {
  const bits = clampedBits(x);
  return fromBits(bits) - fromBits(bits & ~0xfff);
}

function clampedBits(x: number): number {
  const bits = bitsOf(x);
  const magnitude = bits & 0x7fffffff;
  if (magnitude < 0x26800000) return 0;
  return (bits & 0x80000000) | Math.min(magnitude, 0x58800000);
}
