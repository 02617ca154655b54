const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** The bits of x rounded to f32. */
export function bitsOf(x: number): number {
  float[0] = x;
  return word[0]!;
}

/** The f32 with these bits. */
export function fromBits(bits: number): number {
  word[0] = bits >>> 0;
  return float[0]!;
}

/** 2^exponent, exact, for -1022..1023. */
export function pow2(exponent: number): number {
  double[0] = 0;
  double[1] = (exponent + 1023) << 20;
  return doubleValue[0]!;
}

/** floor(log2 x) of a positive normal f64. */
export function exponentOf64(x: number): number {
  doubleValue[0] = x;
  return (double[1]! >>> 20) - 1023;
}

// Little-endian, as every platform that runs WebGPU or Node is.
const doubleValue = new Float64Array(1);
const double = new Int32Array(doubleValue.buffer);

/** r12 of docs/NUMERICS.md: 12 significant bits; below 2^-50 zero, capped at 2^50. */
export function r12(x: number): number {
  const bits = bitsOf(x);
  const sign = bits & 0x80000000;
  let u = bits & 0x7fffffff;
  if (u < 0x26800000) return 0;
  if (u > 0x58800000) u = 0x58800000;
  return fromBits(sign | ((u + 0x800) & ~0xfff));
}

/**
 * Nearest integer, ties to even, for |x| < 2^51: there an f64 that has 1.5·2^52 added keeps no fraction. The number stands
 * here as a literal: a constant of the module is loaded anew every time once a bundler has made a variable of it, and
 * loops over all weights take twice as long.
 */
export function roundHalfEven(x: number): number {
  return x + 0x18000000000000 - 0x18000000000000;
}
