/** Index, counted from `start`, of the largest of values[start .. start + count - 1]; the lowest among equals. */
export function argmax(values: Float32Array, start: number, count: number): number {
  let best = 0;
  for (let i = 1; i < count; i++) {
    if (values[start + i] > values[start + best]) best = i;
  }
  return best;
}
