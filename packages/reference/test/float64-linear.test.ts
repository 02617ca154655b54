import { describe, expect, it } from 'vitest';
import { linear64 } from '../src/float64-linear.js';

/** The definition: every sum ascending from the bias. */
function oneByOne(matrix: Float32Array, columns: number, input: Float64Array, bias?: Float32Array): Float64Array {
  const rows = matrix.length / columns;
  return Float64Array.from({ length: (input.length / columns) * rows }, (_, i) => {
    const [row, n] = [Math.floor(i / rows), i % rows];
    let sum = bias?.[n] ?? 0;
    for (let k = 0; k < columns; k++) sum += matrix[n * columns + k]! * input[row * columns + k]!;
    return sum;
  });
}

describe('linear64', () => {
  const value = (i: number): number => Math.sin(i * 12.9898) * 43.7;

  it.each([
    [1, 1, 1],
    [2, 5, 3],
    [7, 33, 5],
    [8, 64, 4],
    [3, 10, 9],
  ])('gives the bits of sums one by one: %i outputs of %i inputs, %i rows', (rows, columns, rowCount) => {
    const matrix = Float32Array.from({ length: rows * columns }, (_, i) => value(i));
    const input = Float64Array.from({ length: rowCount * columns }, (_, i) => value(i + 1000));
    const bias = Float32Array.from({ length: rows }, (_, i) => value(i + 5000));
    expect(linear64(matrix, columns, input, bias)).toEqual(oneByOne(matrix, columns, input, bias));
    expect(linear64(matrix, columns, input, undefined)).toEqual(oneByOne(matrix, columns, input));
  });
});
