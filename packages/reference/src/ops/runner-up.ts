/**
 * The largest of values[start .. start + count - 1] but for the one at `best`, counted from `start`; -Infinity where there
 * is no other.
 */
export function runnerUp(values: Float32Array, start: number, count: number, best: number): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < count; i++) {
    if (i !== best && values[start + i] > largest) largest = values[start + i];
  }
  return largest;
}
