/**
 * input · matrixᵀ + bias in f64. `matrix` (rows × columns), `input` (rowCount × columns), the result (rowCount × rows).
 * Every sum is ascending from the bias. Four inputs and two outputs are computed at a time, which is
 * several times as quick as one by one and changes no sum.
 */
export function linear64(
  matrix: Float32Array,
  columns: number,
  input: Float64Array,
  bias: Float32Array | undefined,
): Float64Array {
  const rows = matrix.length / columns;
  const rowCount = input.length / columns;
  const output = new Float64Array(rowCount * rows);
  const w0 = new Float64Array(columns);
  const w1 = new Float64Array(columns);
  const sums = new Float64Array(8);
  for (let n = 0; n < rows; n += 2) {
    // The last output of an odd number is computed twice.
    const m = Math.min(n + 1, rows - 1);
    w0.set(matrix.subarray(n * columns, (n + 1) * columns));
    w1.set(matrix.subarray(m * columns, (m + 1) * columns));
    const starts = [bias?.[n] ?? 0, bias?.[m] ?? 0] as const;
    for (let row = 0; row < rowCount; row += 4) {
      fourRows(w0, w1, input, row, Math.min(4, rowCount - row), starts, sums);
      for (let r = 0; r < 4 && row + r < rowCount; r++) {
        output[(row + r) * rows + n] = sums[2 * r];
        output[(row + r) * rows + m] = sums[2 * r + 1];
      }
    }
  }
  return output;
}

/** Sums of two outputs for each of up to four rows, (4 × 2); rows that are not there repeat the last one. */
function fourRows(
  w0: Float64Array,
  w1: Float64Array,
  input: Float64Array,
  row: number,
  count: number,
  [start0, start1]: readonly [number, number],
  sums: Float64Array,
): void {
  const columns = w0.length;
  const at = (r: number): number => (row + Math.min(r, count - 1)) * columns;
  let x0 = at(0);
  let x1 = at(1);
  let x2 = at(2);
  let x3 = at(3);
  let a0 = start0;
  let a1 = start0;
  let a2 = start0;
  let a3 = start0;
  let b0 = start1;
  let b1 = start1;
  let b2 = start1;
  let b3 = start1;
  for (let k = 0; k < columns; k++) {
    const u = w0[k];
    const v = w1[k];
    const p = input[x0++];
    const q = input[x1++];
    const s = input[x2++];
    const t = input[x3++];
    a0 += u * p;
    a1 += u * q;
    a2 += u * s;
    a3 += u * t;
    b0 += v * p;
    b1 += v * q;
    b2 += v * s;
    b3 += v * t;
  }
  sums[0] = a0;
  sums[1] = b0;
  sums[2] = a1;
  sums[3] = b1;
  sums[4] = a2;
  sums[5] = b2;
  sums[6] = a3;
  sums[7] = b3;
}
