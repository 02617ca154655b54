import { assert } from '../errors.js';
import { badWeight } from './bad-weight.js';
import { bitsOf, roundHalfEven } from './bits.js';
import { BLOCK } from './constants.js';
import { Q4_MAX, roundQ4Parameter } from './q4-parameter.js';

export interface Q4Arrays {
  /** (rows × blockCount × 16): byte i of a block has the quant of element i in its low half, of element i + 16 in its high half. */
  readonly nibbles: Uint8Array;
  /** (rows × blockCount), bf16 bits. */
  readonly scales: Uint16Array;
  readonly centres: Uint16Array;
}

/** Ends of q - 8. */
const LEAST_STEP = -8;
const LARGEST_STEP = 7;
/** Part of a block's range that a fit leaves out at one end, for the others' sake: about half a step. */
const CLIP = 2 ** -5;

/**
 * Blocks of 32 along a row as s·(q - 8) + c, s and c in bf16, q - 8 = half-even((w - c)·(1 / s)) within -8..7; made in f64.
 * Of five fits that a block is given, it gets the first with the least sum of squared errors: its whole range, and, for
 * each end of the range, all but 1/32 of it at that end, and the line of least squares through the steps of that one.
 * Padding has q = 8. `target` is new by default. |w| > 2^10 is an error.
 */
export function encodeQ4(
  name: string,
  values: Float32Array,
  rows: number,
  columns: number,
  target: Q4Arrays = emptyQ4(rows, columns),
): Q4Arrays {
  const { nibbles, scales, centres } = target;
  const blockCount = Math.ceil(columns / BLOCK);
  assert(values.length === rows * columns, `${name}: ${values.length} values for ${rows} rows of ${columns}`);
  assert(
    scales.length === rows * blockCount && centres.length === scales.length && nibbles.length === scales.length * 16,
    `${name}: no place for ${rows} rows`,
  );
  const fitter = new BlockFitter();
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blockCount; block++) {
      const start = row * columns + block * BLOCK;
      const count = Math.min(BLOCK, (row + 1) * columns - start);
      const place = row * blockCount + block;
      fitter.fit(name, values, start, count);
      scales[place] = bitsOf(fitter.scale) >>> 16;
      centres[place] = bitsOf(fitter.centre) >>> 16;
      const { steps } = fitter;
      for (let i = 0; i < 16; i++) nibbles[place * 16 + i] = (steps[i]! + 8) | ((steps[i + 16]! + 8) << 4);
    }
  }
  return target;
}

/** Room for a matrix of that shape. */
export function emptyQ4(rows: number, columns: number): Q4Arrays {
  const blockCount = rows * Math.ceil(columns / BLOCK);
  return {
    nibbles: new Uint8Array(blockCount * 16),
    scales: new Uint16Array(blockCount),
    centres: new Uint16Array(blockCount),
  };
}

/** Finds scale, centre and steps of one block after the other; what it found is valid until the next `fit`. */
class BlockFitter {
  scale = 0;
  centre = 0;
  /** q - 8: (32), zeros after the block's own. */
  readonly steps = new Int8Array(BLOCK);
  readonly #values = new Float64Array(BLOCK);
  #count = 0;
  #error = 0;
  /** Of the last try. */
  #sums: FitSums = { steps: 0, squares: 0, products: 0, errors: 0 };

  /** Fits values[start .. start + count - 1]. Throws `STET_ERR_BAD_WEIGHTS`. */
  fit(name: string, values: Float32Array, start: number, count: number): void {
    let least = Number.POSITIVE_INFINITY;
    let largest = Number.NEGATIVE_INFINITY;
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const value = values[start + i]!;
      if (!(Math.abs(value) <= Q4_MAX)) badWeight(name, start + i, 'is not finite or above 2^10');
      if (value < least) least = value;
      if (value > largest) largest = value;
      sum += value;
      this.#values[i] = value;
    }
    this.#count = count;
    this.#error = Number.POSITIVE_INFINITY;
    const clip = (largest - least) * CLIP;
    this.#tryRange(least, largest);
    if (clip > 0) {
      this.#tryRange(least + clip, largest);
      this.#tryLine(sum);
      this.#tryRange(least, largest - clip);
      this.#tryLine(sum);
    }
    this.#setSteps();
  }

  /** Both ends are reached, whatever the rounding of the centre takes. */
  #tryRange(least: number, largest: number): void {
    const centre = roundQ4Parameter((least * LARGEST_STEP - largest * LEAST_STEP) / (LARGEST_STEP - LEAST_STEP));
    const scale = Math.max((least - centre) / LEAST_STEP, (largest - centre) / LARGEST_STEP);
    this.#try(roundQ4Parameter(scale), centre);
  }

  /** The line of least squares through the steps of the last try and their values, whose sum is given. */
  #tryLine(sum: number): void {
    const { steps, squares, products } = this.#sums;
    const determinant = this.#count * squares - steps * steps;
    if (determinant === 0) return;
    const scale = roundQ4Parameter((this.#count * products - steps * sum) / determinant);
    this.#try(scale, roundQ4Parameter((sum - scale * steps) / this.#count));
  }

  #try(scale: number, centre: number): void {
    if (Math.abs(scale) > Q4_MAX || Math.abs(centre) > Q4_MAX) return;
    const sums = sumsOf(this.#values, this.#count, scale, centre);
    this.#sums = sums;
    if (!(sums.errors < this.#error)) return;
    this.#error = sums.errors;
    this.scale = scale;
    this.centre = centre;
  }

  #setSteps(): void {
    const { steps, centre } = this;
    const inverse = inverseOf(this.scale);
    for (let i = 0; i < this.#count; i++) steps[i] = stepOf(this.#values[i]!, inverse, centre);
    steps.fill(0, this.#count);
  }
}

/** Sums of q - 8, of its squares and of (q - 8)·w over the values of a block, and of the squared errors. */
interface FitSums {
  readonly steps: number;
  readonly squares: number;
  readonly products: number;
  readonly errors: number;
}

function sumsOf(values: Float64Array, count: number, scale: number, centre: number): FitSums {
  const inverse = inverseOf(scale);
  let steps = 0;
  let squares = 0;
  let products = 0;
  let errors = 0;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    const step = stepOf(value, inverse, centre);
    steps += step;
    squares += step * step;
    products += step * value;
    const error = scale * step + centre - value;
    errors += error * error;
  }
  return { steps, squares, products, errors };
}

/** q - 8. The clamp comes before the rounding: that is the same between integers, and quicker. */
function stepOf(value: number, inverseScale: number, centre: number): number {
  const place = (value - centre) * inverseScale;
  if (place < LEAST_STEP) return LEAST_STEP;
  if (place > LARGEST_STEP) return LARGEST_STEP;
  return roundHalfEven(place);
}

function inverseOf(scale: number): number {
  return scale === 0 ? 0 : 1 / scale;
}
