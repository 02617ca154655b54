const HALF_EXPONENT = 0x7c00;

/** f32 values of IEEE half-precision bits; exact. Both have the same length. */
export function halfToFloats(halves: Uint16Array, target: Float32Array): void {
  const words = wordsOf(target);
  for (let i = 0; i < words.length; i++) words[i] = halfToFloatBits(halves[i]!);
}

/** f32 values of bf16 bits; exact. Both have the same length. */
export function bf16ToFloats(bits: Uint16Array, target: Float32Array): void {
  const words = wordsOf(target);
  for (let i = 0; i < words.length; i++) words[i] = bits[i]! << 16;
}

/** The f32 bits of the value of a half. */
export function halfToFloatBits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = half & HALF_EXPONENT;
  const mantissa = half & 0x3ff;
  if (exponent === HALF_EXPONENT) return sign | 0x7f800000 | (mantissa << 13);
  if (exponent !== 0) return sign | (((half & 0x7fff) << 13) + (112 << 23));
  if (mantissa === 0) return sign;
  // A subnormal half is a normal float: shift its leading bit into the hidden place.
  const shift = Math.clz32(mantissa) - 21;
  return sign | ((113 - shift) << 23) | ((mantissa << (13 + shift)) & 0x7fffff);
}

function wordsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}
