import { NORM_LANES, r12, rmsNormConstants } from '@stet/backend/numerics';
import { b1, r16, rsqrt } from '../primitives.js';

const { fround } = Math;

/**
 * output = input / sqrt(mean(input²) + epsilon) · weight, for `rowCount` rows of `width`, each of `groupCount` equal parts
 * of a row by itself: the mean, the lanes, the constants and the weight (width / groupCount) are of the part. Squares
 * have 24 bits and are exact; 128 lanes add them in ascending order and fold in halves.
 */
export function rmsNorm(
  input: Float32Array,
  weight: Float32Array,
  epsilon: number,
  width: number,
  groupCount: number,
  rowCount: number,
  output: Float32Array,
): void {
  const groupWidth = width / groupCount;
  const { scaledEpsilon, rootWidth } = rmsNormConstants(groupWidth, epsilon);
  const lanes = new Float32Array(NORM_LANES);
  for (let start = 0; start < rowCount * width; start += groupWidth) {
    const sum = sumOfSquares(input, start, groupWidth, lanes);
    const inverse = r16(fround(rsqrt(fround(sum + scaledEpsilon)) * rootWidth));
    for (let i = 0; i < groupWidth; i++) {
      output[start + i] = fround(b1(fround(input[start + i] * inverse)) * weight[i]);
    }
  }
}

function sumOfSquares(input: Float32Array, start: number, width: number, lanes: Float32Array): number {
  lanes.fill(0);
  for (let i = 0; i < width; i++) {
    const x = r12(input[start + i]);
    const lane = i % NORM_LANES;
    lanes[lane] = fround(lanes[lane] + x * x);
  }
  for (let half = NORM_LANES / 2; half >= 1; half /= 2) {
    for (let lane = 0; lane < half; lane++) lanes[lane] = fround(lanes[lane] + lanes[lane + half]);
  }
  return lanes[0];
}
