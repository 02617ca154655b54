import { BLOCK, pow2, Q8_SEGMENT_BLOCKS } from '@stet/backend/numerics';
import type { LinearCall, OutputRange } from './linear.js';
import { allocateQ15, type Q15, quantizeQ15 } from './q15.js';

const { fround } = Math;

/**
 * int8 weights with a scale of 5 bits for each block of 32, times Q15 activations. A block's dot product with each plane
 * is an exact i32 below 2^19, so its product with the scales is exact: 19 + 5 bits. Sums go up in the blocks within
 * segments of 8 blocks, high plane before low, then over the segments; the bias comes last.
 */
export function linearQ8(call: LinearCall, quants: Int8Array, scales: Float32Array): OutputRange {
  const { rows, columns, bias, rowCount, output } = call;
  const blockCount = Math.ceil(columns / BLOCK);
  const stride = blockCount * BLOCK;
  const activations = allocateQ15(rowCount * stride);
  for (let row = 0; row < rowCount; row++) quantizeQ15(call.input, row * columns, columns, activations, row * stride);

  return (from, to) => {
    for (let n = from; n < to; n++) {
      for (let row = 0; row < rowCount; row++) {
        const sum = segmentedDot(quants, scales, n * blockCount, activations, row * blockCount, blockCount);
        output[row * rows + n] = bias ? fround(sum + bias[n]) : sum;
      }
    }
  };
}

function segmentedDot(
  quants: Int8Array,
  scales: Float32Array,
  weightBlock: number,
  activations: Q15,
  activationBlock: number,
  blockCount: number,
): number {
  const { high, low, exponents } = activations;
  let sum = 0;
  for (let start = 0; start < blockCount; start += Q8_SEGMENT_BLOCKS) {
    const end = Math.min(start + Q8_SEGMENT_BLOCKS, blockCount);
    let segment = 0;
    for (let block = start; block < end; block++) {
      const w = (weightBlock + block) * BLOCK;
      const x = (activationBlock + block) * BLOCK;
      let highDot = 0;
      let lowDot = 0;
      for (let i = 0; i < BLOCK; i++) {
        highDot = (highDot + Math.imul(quants[w + i], high[x + i])) | 0;
        lowDot = (lowDot + Math.imul(quants[w + i], low[x + i])) | 0;
      }
      const scale = scales[weightBlock + block] * pow2(exponents[activationBlock + block]);
      segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));
    }
    sum = fround(sum + segment);
  }
  return sum;
}
