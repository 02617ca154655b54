/** In the order of the tables. The first that can run the model is what all others are held against. */
export const matrixBackends = [
  'reference',
  'CPU scalar',
  'CPU avx2',
  'CPU avx512',
  'CPU batch-shaped',
  'WebGPU in Node',
  'WebGPU+CPU',
  'WebGPU in Chromium',
  'reference in Chromium',
] as const;
export type MatrixBackend = (typeof matrixBackends)[number];
