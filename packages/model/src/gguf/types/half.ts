/**
 * The value of IEEE half-precision bits, exact. Without a table or a power: 2^e is an integer for every exponent that
 * halves have.
 */
export function half(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 0x3ff;
  const size =
    exponent === 0
      ? mantissa * 2 ** -24
      : exponent === 31
        ? mantissa === 0
          ? Number.POSITIVE_INFINITY
          : Number.NaN
        : (1024 + mantissa) * (1 << exponent) * 2 ** -25;
  return bits & 0x8000 ? -size : size;
}

/** The half at two bytes, the lower first. */
export function halfAt(bytes: Uint8Array, at: number): number {
  return half(bytes[at]! | (bytes[at + 1]! << 8));
}
