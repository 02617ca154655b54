import argmaxText from '../../../../kernels/wgsl/argmax.wgsl';
import { Kernel } from '../device/kernel.js';
import type { KernelCall } from '../program/kernel-call.js';

const partsKernel = new Kernel('argmax', argmaxText, { joins: false });
const joinKernel = new Kernel('argmax_join', argmaxText, { joins: true });

/** Logits that one workgroup looks through. */
const PART_WIDTH = 1024;

/** Bytes of one answer: u32 token, f32 logit, f32 runner-up logit, 0. */
export const ARGMAX_BYTES = 16;

/** Bytes of `partials` for so many rows. */
export function argmaxPartialBytes(vocabSize: number, rowCount: number): number {
  return rowCount * Math.ceil(vocabSize / PART_WIDTH) * ARGMAX_BYTES;
}

/** One answer for each row of `logits` (rowCount × vocabSize), at `firstRow + row` of `results`. */
export function argmaxCalls({
  logits,
  vocabSize,
  partials,
  results,
  firstRow,
}: {
  readonly logits: GPUBuffer;
  readonly vocabSize: number;
  readonly partials: GPUBuffer;
  readonly results: GPUBuffer;
  readonly firstRow: number;
}): KernelCall[] {
  const partCount = Math.ceil(vocabSize / PART_WIDTH);
  return [
    {
      kernel: partsKernel,
      params: { width: vocabSize, partWidth: PART_WIDTH, firstRow: 0 },
      buffers: { source: logits, result: partials },
      workgroups: ({ rowCount }) => [partCount, rowCount, 1],
    },
    {
      kernel: joinKernel,
      params: { width: partCount, partWidth: partCount, firstRow },
      buffers: { source: partials, result: results },
      workgroups: ({ rowCount }) => [1, rowCount, 1],
    },
  ];
}
