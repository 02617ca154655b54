import { BLOCK, pow2, Q8_SEGMENT_BLOCKS } from '@stet/backend/numerics';
import type { LinearCall, OutputRange } from './linear.js';
import { allocateQ15, quantizeQ15 } from './q15.js';

const { fround } = Math;

/**
 * int8 weights with a scale of 5 to 8 bits for each block of 32, times Q15 activations. A block's dot product with each
 * plane is an exact i32 below 2^19, and so much smaller where the scale has more than 5 bits that its product with the
 * scale has 24 bits and is exact (`encodeQ8`). Sums go up in the blocks within
 * segments of 8 blocks, high plane before low, then over the segments; the bias comes last.
 */
export function linearQ8(call: LinearCall, quants: Int8Array, scales: Float32Array): OutputRange {
  const { rows, columns, bias, rowCount, output } = call;
  const blockCount = Math.ceil(columns / BLOCK);
  const stride = blockCount * BLOCK;
  const activations = allocateQ15(rowCount * stride);
  for (let row = 0; row < rowCount; row++) quantizeQ15(call.input, row * columns, columns, activations, row * stride);
  const operands: Operands = {
    quants,
    scales,
    high: activations.high,
    low: activations.low,
    powers: Float32Array.from(activations.exponents, pow2),
    blockCount,
  };

  return (from, to) => {
    for (let n = from; n < to; n++) {
      for (let row = 0; row < rowCount; row++) {
        const sum = segmentedDot(operands, n * blockCount, row * blockCount);
        output[row * rows + n] = bias ? fround(sum + bias[n]) : sum;
      }
    }
  };
}

interface Operands {
  /** (rows × blockCount·32) and (rows × blockCount) */
  readonly quants: Int8Array;
  readonly scales: Float32Array;
  /** (rowCount × blockCount·32), and 2^exponent, (rowCount × blockCount) */
  readonly high: Int8Array;
  readonly low: Int8Array;
  readonly powers: Float32Array;
  readonly blockCount: number;
}

/** One output of one row, whose blocks start at `weightBlock` and `activationBlock`. */
function segmentedDot(operands: Operands, weightBlock: number, activationBlock: number): number {
  const { quants, scales, high, low, powers, blockCount } = operands;
  const segmentBlocks = Q8_SEGMENT_BLOCKS;
  const block = BLOCK;
  let sum = 0;
  for (let start = 0; start < blockCount; start += segmentBlocks) {
    const end = Math.min(start + segmentBlocks, blockCount);
    let segment = 0;
    for (let b = start; b < end; b++) {
      const w = (weightBlock + b) * block;
      const x = (activationBlock + b) * block;
      let highDot = 0;
      let lowDot = 0;
      for (let i = 0; i < block; i++) {
        const weight = quants[w + i];
        highDot = (highDot + Math.imul(weight, high[x + i])) | 0;
        lowDot = (lowDot + Math.imul(weight, low[x + i])) | 0;
      }
      const scale = scales[weightBlock + b] * powers[activationBlock + b];
      segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));
    }
    sum = fround(sum + segment);
  }
  return sum;
}
