/** output = left + right, the first `count` elements; output may be left. */
export function add(left: Float32Array, right: Float32Array, count: number, output: Float32Array): void {
  for (let i = 0; i < count; i++) output[i] = Math.fround(left[i] + right[i]);
}
