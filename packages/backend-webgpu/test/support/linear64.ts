import type { WeightData } from '@stet/backend';
import { embed } from '@stet/reference';

/** A matrix as its values, and what a fused linear does with it, for the yardstick in f64. */
export interface Matrix64 {
  readonly rows: number;
  readonly columns: number;
  readonly data: Exclude<WeightData, { kind: 'vector' }>;
}

/** Results in f64, and for each the sum of the magnitudes of what was added, which its error is measured by. */
export interface Sums64 {
  readonly values: Float64Array;
  readonly magnitudes: Float64Array;
}

/** input (rowCount × columns) · matrixᵀ + bias, (rowCount × rows). */
export function linearSums64({ rows, columns, data }: Matrix64, input: Float64Array, bias?: Float32Array): Sums64 {
  const rowCount = input.length / columns;
  const values = new Float64Array(rowCount * rows);
  const magnitudes = new Float64Array(rowCount * rows);
  const weights = new Float32Array(columns);
  for (let n = 0; n < rows; n++) {
    embed(data, columns, n, weights, 0);
    for (let row = 0; row < rowCount; row++) {
      let sum = bias?.[n] ?? 0;
      let magnitude = Math.abs(sum);
      for (let k = 0; k < columns; k++) {
        const product = weights[k]! * input[row * columns + k]!;
        sum += product;
        magnitude += Math.abs(product);
      }
      values[row * rows + n] = sum;
      magnitudes[row * rows + n] = magnitude;
    }
  }
  return { values, magnitudes };
}

export function rmsNorm64(input: Float64Array, weight: Float32Array, epsilon: number): Float64Array {
  const width = weight.length;
  const output = new Float64Array(input.length);
  for (let start = 0; start < input.length; start += width) {
    let squares = 0;
    for (let i = 0; i < width; i++) squares += input[start + i]! ** 2;
    const inverse = 1 / Math.sqrt(squares / width + epsilon);
    for (let i = 0; i < width; i++) output[start + i] = input[start + i]! * inverse * weight[i]!;
  }
  return output;
}

/** silu(gate) · up. */
export function swigluSums64(gate: Sums64, up: Sums64): Sums64 {
  const silu = gate.values.map((x) => x / (1 + Math.exp(-x)));
  return {
    values: silu.map((x, i) => x * up.values[i]!),
    // The slope of silu is below 1.1.
    magnitudes: silu.map(
      (x, i) => Math.abs(x) * up.magnitudes[i]! + 1.1 * gate.magnitudes[i]! * Math.abs(up.values[i]!),
    ),
  };
}

/**
 * f32 sums in whatever order: products and partial sums err by 2^-24 of themselves, a sum of a few thousand by some of these.
 * A quant of q4 is made by one product and one sum of up to 31 scales and errs by up to 55·2^-24 of a scale, the same way for
 * all of a block, whose weights may have a mean magnitude of little more than one scale: 2^-18.2 of them.
 */
const TOLERANCE = 2 ** -17;

/** Throws at the first value that is further from the yardstick than f32 sums are. */
export function checkClose(got: Float32Array, { values, magnitudes }: Sums64, where: string): void {
  if (got.length !== values.length) throw new Error(`${where}: ${got.length} values, expected ${values.length}`);
  for (let i = 0; i < got.length; i++) {
    const error = Math.abs(got[i]! - values[i]!);
    if (!(error <= TOLERANCE * magnitudes[i]!)) {
      throw new Error(
        `${where}: value ${i} is ${got[i]}, in f64 ${values[i]}; the sum of magnitudes is ${magnitudes[i]}`,
      );
    }
  }
}
