import { assert } from '../errors.js';
import { badWeight } from './bad-weight.js';
import { exponentOf64, pow2, roundHalfEven } from './bits.js';
import { BLOCK } from './constants.js';

export interface Q8Arrays {
  /** (rows × blockCount·32), the last block of a row padded with zeros. */
  readonly quants: Int8Array;
  /** (rows × blockCount). */
  readonly scales: Float32Array;
}

const LARGEST_QUANT = 127;
const LEAST_SCALE = pow2(-40);
const LARGEST_WEIGHT = LARGEST_QUANT * 1984;
/** Exponent of the step of scales with 8 significant bits, from that of a scale. */
const FINEST_STEP = -7;
/**
 * floor(2^24 / 127): a scale m·2^k may have any m with which m·Σ|q| is at most this, for then the dot products of its
 * block with int8 values keep 24 bits when they are multiplied by it.
 */
const PRODUCT_LIMIT = 132104;

/**
 * int8 blocks of 32 along a row, made in f64. With a = max |w|, T = Σ|w| of a block: k is the least integer for which
 * m = ceil(a / 127 / 2^k) has T / 2^k + 16·m <= 132104 and 8 bits; the scale is m·2^k or, if the sum of squared errors
 * is less and m·2^k > a / 127, (m - 1)·2^k; q = half-even(w·(1 / scale)) within -127..127. Where a <= 127·2^-40 the scale is
 * 2^-40. `target` must be zero where rows end in padding; by default it is new. |w| > 127·1984 is an error.
 */
export function encodeQ8(
  name: string,
  values: Float32Array,
  rows: number,
  columns: number,
  target: Q8Arrays = emptyQ8(rows, columns),
): Q8Arrays {
  const { quants, scales } = target;
  const blockCount = Math.ceil(columns / BLOCK);
  assert(values.length === rows * columns, `${name}: ${values.length} values for ${rows} rows of ${columns}`);
  assert(
    scales.length === rows * blockCount && quants.length === scales.length * BLOCK,
    `${name}: no place for ${rows} rows`,
  );
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blockCount; block++) {
      const start = row * columns + block * BLOCK;
      const end = Math.min(start + BLOCK, (row + 1) * columns);
      let largest = 0;
      let sum = 0;
      for (let i = start; i < end; i++) {
        const magnitude = Math.abs(values[i]!);
        if (magnitude > largest) largest = magnitude;
        sum += magnitude;
      }
      // A NaN is above nothing, but the sum has it.
      if (!(largest <= LARGEST_WEIGHT && sum >= 0)) refuse(name, values);
      const scale = bestScale(values, start, end, largest, sum);
      const place = row * blockCount + block;
      scales[place] = scale;
      const shift = place * BLOCK - start;
      const inverse = 1 / scale;
      for (let i = start; i < end; i++) quants[shift + i] = quantOf(values[i]!, inverse);
    }
  }
  return target;
}

function refuse(name: string, values: Float32Array): never {
  const index = values.findIndex((value) => !(Math.abs(value) <= LARGEST_WEIGHT));
  return badWeight(name, index, `is not finite or above ${LARGEST_WEIGHT}`);
}

function emptyQ8(rows: number, columns: number): Q8Arrays {
  const blockCount = rows * Math.ceil(columns / BLOCK);
  return { quants: new Int8Array(blockCount * BLOCK), scales: new Float32Array(blockCount) };
}

/** The scale of a block, of which the largest magnitude and the sum of all are given. */
function bestScale(values: Float32Array, start: number, end: number, largest: number, sum: number): number {
  const exact = largest / LARGEST_QUANT;
  if (!(exact > LEAST_SCALE)) return LEAST_SCALE;
  let step = pow2(exponentOf64(exact) + FINEST_STEP);
  // Σ|q| is at most sum / scale, and half a quant more for each element. Five bits are always few enough.
  while (sum / step + (BLOCK / 2) * Math.ceil(exact / step) > PRODUCT_LIMIT) step *= 2;
  const upper = Math.ceil(exact / step) * step;
  if (upper === exact) return upper;
  return isLowerBetter(values, start, end, upper - step, upper) ? upper - step : upper;
}

/** Whether the lower of two scales has the lesser sum of squared errors, though it cuts what is above 127 of it. */
function isLowerBetter(values: Float32Array, start: number, end: number, lower: number, upper: number): boolean {
  const lowerInverse = 1 / lower;
  const upperInverse = 1 / upper;
  let lowerErrors = 0;
  let upperErrors = 0;
  for (let i = start; i < end; i++) {
    const value = values[i]!;
    const lowerError = quantOf(value, lowerInverse) * lower - value;
    const upperError = roundHalfEven(value * upperInverse) * upper - value;
    lowerErrors += lowerError * lowerError;
    upperErrors += upperError * upperError;
  }
  return lowerErrors < upperErrors;
}

/**
 * The clamp comes before the rounding: that is the same between integers. The limits stand as literals, for bundlers make
 * variables of a module's constants, and what a function returns of such a one is boxed: twice the time of all.
 */
function quantOf(value: number, inverseScale: number): number {
  const place = value * inverseScale;
  if (place > 127) return 127;
  if (place < -127) return -127;
  return roundHalfEven(place);
}
