import { exponentOf64, pow2 } from './bits.js';

/**
 * exp, ln, sine and cosine in f64 from + - * / alone: the same bits in every JavaScript engine, whose own Math
 * functions may differ in the last place. Used for rope tables, attention factors, sampling and log-probabilities.
 */

// biome-ignore lint/suspicious/noApproximativeNumericConstant: written out, so that its bits stand here
const LN2 = 0.6931471805599453;
/** ln 2 in two parts: the first has 33 bits, so its product with an exponent is exact. */
const LN2_HIGH = 0.6931471803691238;
const LN2_LOW = 1.9082149292705877e-10;
const HALF_PI = 1.5707963267948966;
/** pi/2 in two parts: the first has 33 bits, so its product with a quadrant number below 2^20 is exact. */
const HALF_PI_HIGH = 1.5707963267341256;
const HALF_PI_LOW = 6.077100506506192e-11;

/** Natural logarithm of a positive, finite, normal x; relative error about 3e-16. */
export function ln(x: number): number {
  let exponent = exponentOf64(x);
  let mantissa = x * pow2(-exponent);
  if (mantissa > 1.5) {
    mantissa *= 0.5;
    exponent++;
  }
  // ln m = 2·artanh((m - 1) / (m + 1)), |z| <= 0.2
  const z = (mantissa - 1) / (mantissa + 1);
  const zz = z * z;
  let sum = 0;
  for (let i = ODD_RECIPROCALS.length - 1; i >= 0; i--) sum = sum * zz + ODD_RECIPROCALS[i]!;
  return 2 * z * sum + exponent * LN2;
}

/** e^x for x below 709; relative error about 3e-16; 0 below -708, so that no subnormal appears. */
export function exp(x: number): number {
  if (x < -708) return 0;
  const k = Math.floor(x / LN2 + 0.5);
  const r = x - k * LN2_HIGH - k * LN2_LOW;
  // Written out: a vocabulary of them is summed for one log-probability.
  let sum = 1 / 87178291200;
  sum = sum * r + 1 / 6227020800;
  sum = sum * r + 1 / 479001600;
  sum = sum * r + 1 / 39916800;
  sum = sum * r + 1 / 3628800;
  sum = sum * r + 1 / 362880;
  sum = sum * r + 1 / 40320;
  sum = sum * r + 1 / 5040;
  sum = sum * r + 1 / 720;
  sum = sum * r + 1 / 120;
  sum = sum * r + 1 / 24;
  sum = sum * r + 1 / 6;
  sum = sum * r + 1 / 2;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return sum * POWERS_OF_TWO[k + 1022]!;
}

/** From 2^-1022 on. */
const POWERS_OF_TWO = Float64Array.from({ length: 2046 }, (_, i) => pow2(i - 1022));

/** 1, 1/3, 1/5, …: as many as an f64 can feel. */
const ODD_RECIPROCALS = Float64Array.from({ length: 13 }, (_, i) => 1 / (2 * i + 1));

/** [sine, cosine] of an angle in radians, |angle| below 2^20; absolute error about 3e-16. */
export function sinCos(angle: number): [number, number] {
  const quadrant = Math.floor(angle / HALF_PI + 0.5);
  const r = angle - quadrant * HALF_PI_HIGH - quadrant * HALF_PI_LOW;
  const rr = r * r;
  let term = r;
  let sine = r;
  for (let i = 3; i < 24; i += 2) {
    term = (-term * rr) / ((i - 1) * i);
    sine += term;
  }
  term = 1;
  let cosine = 1;
  for (let i = 2; i < 24; i += 2) {
    term = (-term * rr) / ((i - 1) * i);
    cosine += term;
  }
  switch (((quadrant % 4) + 4) % 4) {
    case 0:
      return [sine, cosine];
    case 1:
      return [cosine, -sine];
    case 2:
      return [-sine, -cosine];
    default:
      return [-cosine, sine];
  }
}
