import { exponentOf64, pow2, roundHalfEven } from './bits.js';

/** Largest weight, scale and centre of `q4`. */
export const Q4_MAX = 2 ** 10;

/** Scales and centres below it are 0. */
const Q4_LEAST = 2 ** -40;

/** A scale or centre of `q4`: x rounded once to the 8 significant bits of bf16, half to even; below 2^-40 +0. */
export function roundQ4Parameter(x: number): number {
  const magnitude = Math.abs(x);
  if (magnitude < Q4_LEAST) return 0;
  const unit = pow2(exponentOf64(magnitude) - 7);
  return roundHalfEven(x / unit) * unit;
}
