const HALF_EXPONENT = 0x7c00;

/** f32 values of IEEE half-precision bits; exact. */
export function halfToFloat(halves: Uint16Array): Float32Array {
  const words = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) words[i] = halfToFloatBits(halves[i]!);
  return new Float32Array(words.buffer);
}

/** f32 values of bf16 bits; exact. */
export function bf16ToFloat(bits: Uint16Array): Float32Array {
  const words = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16;
  return new Float32Array(words.buffer);
}

function halfToFloatBits(half: number): number {
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
