import { assert } from '../errors.js';
import { badWeight } from './bad-weight.js';
import { bitsOf, exponentOf64, pow2, roundHalfEven } from './bits.js';
import { BLOCK } from './constants.js';

export interface Q4Arrays {
  /** (rows × blockCount × 16): byte i of a block has the quant of element i in its low half, of element i + 16 in its high half. */
  readonly nibbles: Uint8Array;
  /** (rows × blockCount), bf16 bits. */
  readonly scales: Uint16Array;
  readonly minima: Uint16Array;
}

/** Largest weight, scale and minimum. */
const Q4_MAX = 2 ** 10;
/** Scales and minima below it are 0. */
const Q4_LEAST = 2 ** -40;
const LARGEST_QUANT = 15;
/** Part of a block's range that a fit leaves out at one end, for the others' sake: about half a step. */
const CLIP = 2 ** -5;

/**
 * Blocks of 32 along a row as s·q + m, s and m in bf16, q = half-even((w - m)·(1 / s)) within 0..15; made in f64. Of five
 * fits that a block is given, it gets the first with the least sum of squared errors: its whole range, and, for each
 * end of the range, all but 1/32 of it at that end, and the line of least squares through the quants of that one.
 * `target` must be zero where rows end in padding; by default it is new. |w| > 2^10 is an error.
 */
export function encodeQ4(
  name: string,
  values: Float32Array,
  rows: number,
  columns: number,
  target: Q4Arrays = emptyQ4(rows, columns),
): Q4Arrays {
  const { nibbles, scales, minima } = target;
  const blockCount = Math.ceil(columns / BLOCK);
  assert(values.length === rows * columns, `${name}: ${values.length} values for ${rows} rows of ${columns}`);
  assert(
    scales.length === rows * blockCount && minima.length === scales.length && nibbles.length === scales.length * 16,
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
      minima[place] = bitsOf(fitter.minimum) >>> 16;
      const { quants } = fitter;
      for (let i = 0; i < 16; i++) nibbles[place * 16 + i] = quants[i]! | (quants[i + 16]! << 4);
    }
  }
  return target;
}

/** Zeros for a matrix of that shape. */
export function emptyQ4(rows: number, columns: number): Q4Arrays {
  const blockCount = rows * Math.ceil(columns / BLOCK);
  return {
    nibbles: new Uint8Array(blockCount * 16),
    scales: new Uint16Array(blockCount),
    minima: new Uint16Array(blockCount),
  };
}

/** Finds scale, minimum and quants of one block after the other; what it found is valid until the next `fit`. */
class BlockFitter {
  scale = 0;
  minimum = 0;
  /** (32), zeros after the block's own. */
  readonly quants = new Uint8Array(BLOCK);
  readonly #values = new Float64Array(BLOCK);
  #count = 0;
  #error = 0;
  /** Of the last try. */
  #sums: FitSums = { quants: 0, squares: 0, products: 0, errors: 0 };

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
    this.#setQuants();
  }

  #tryRange(least: number, largest: number): void {
    const minimum = roundToBf16(least);
    this.#try(roundToBf16((largest - minimum) / LARGEST_QUANT), minimum);
  }

  /** The line of least squares through the quants of the last try and their values, whose sum is given. */
  #tryLine(sum: number): void {
    const { quants, squares, products } = this.#sums;
    const determinant = this.#count * squares - quants * quants;
    if (determinant === 0) return;
    const scale = (this.#count * products - quants * sum) / determinant;
    this.#try(roundToBf16(scale), roundToBf16((sum - scale * quants) / this.#count));
  }

  #try(scale: number, minimum: number): void {
    if (Math.abs(scale) > Q4_MAX || Math.abs(minimum) > Q4_MAX) return;
    const sums = sumsOf(this.#values, this.#count, scale, minimum);
    this.#sums = sums;
    if (!(sums.errors < this.#error)) return;
    this.#error = sums.errors;
    this.scale = scale;
    this.minimum = minimum;
  }

  #setQuants(): void {
    const { quants, minimum } = this;
    const inverse = inverseOf(this.scale);
    for (let i = 0; i < this.#count; i++) quants[i] = quantOf(this.#values[i]!, inverse, minimum);
    quants.fill(0, this.#count);
  }
}

/** Sums of q, q² and q·w over the values of a block, and of the squared errors. */
interface FitSums {
  readonly quants: number;
  readonly squares: number;
  readonly products: number;
  readonly errors: number;
}

function sumsOf(values: Float64Array, count: number, scale: number, minimum: number): FitSums {
  const inverse = inverseOf(scale);
  let quants = 0;
  let squares = 0;
  let products = 0;
  let errors = 0;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    const quant = quantOf(value, inverse, minimum);
    quants += quant;
    squares += quant * quant;
    products += quant * value;
    const error = scale * quant + minimum - value;
    errors += error * error;
  }
  return { quants, squares, products, errors };
}

/** The clamp comes before the rounding: that is the same between integers, and quicker. */
function quantOf(value: number, inverseScale: number, minimum: number): number {
  const place = (value - minimum) * inverseScale;
  if (place < 0) return 0;
  if (place > LARGEST_QUANT) return LARGEST_QUANT;
  return roundHalfEven(place);
}

function inverseOf(scale: number): number {
  return scale === 0 ? 0 : 1 / scale;
}

/** x rounded once to 8 significant bits, half to even; below 2^-40 +0. */
function roundToBf16(x: number): number {
  const magnitude = Math.abs(x);
  if (magnitude < Q4_LEAST) return 0;
  const unit = pow2(exponentOf64(magnitude) - 7);
  return roundHalfEven(x / unit) * unit;
}
