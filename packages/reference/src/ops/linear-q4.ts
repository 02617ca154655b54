import type { WeightData } from '@stet/backend';
import { BLOCK, fromBits, pow2, Q4_SEGMENT_BLOCKS } from '@stet/backend/numerics';
import { r16 } from '../primitives.js';
import type { LinearCall, OutputRange } from './linear.js';
import { allocateQ15, type Q15, quantizeQ15 } from './q15.js';

const { fround } = Math;

/**
 * Weights s·(q - 8) + c, q in 0..15, s and c of 8 bits for each block of 32, times Q15 activations. A block adds three
 * exact products: the dot products of q - 8 with the high and the low plane, i32 of at most 32512 < 2^15, times s (15 + 8
 * bits), and c times the block's sum of activations, rounded to 16 bits once for all outputs (16 + 8 bits). Sums go up in the blocks
 * within segments of 8 blocks, in this order, then over the segments; the bias comes last.
 */
export function linearQ4(call: LinearCall, weight: WeightData & { kind: 'q4' }): OutputRange {
  const { rows, columns, bias, rowCount, output } = call;
  const blockCount = Math.ceil(columns / BLOCK);
  const stride = blockCount * BLOCK;
  const activations = allocateQ15(rowCount * stride);
  for (let row = 0; row < rowCount; row++) quantizeQ15(call.input, row * columns, columns, activations, row * stride);
  const operands: Operands = {
    steps: new Int8Array(stride),
    scales: new Float32Array(blockCount),
    centres: new Float32Array(blockCount),
    high: activations.high,
    low: activations.low,
    powers: Float32Array.from(activations.exponents, pow2),
    sums: blockSums(activations),
    blockCount,
  };

  return (from, to) => {
    for (let n = from; n < to; n++) {
      unpackRow(weight, n, operands);
      for (let row = 0; row < rowCount; row++) {
        const sum = segmentedDot(operands, row * blockCount);
        output[row * rows + n] = bias ? fround(sum + bias[n]) : sum;
      }
    }
  };
}

interface Operands {
  /** Of one output: q - 8 (blockCount·32), and (blockCount). */
  readonly steps: Int8Array;
  readonly scales: Float32Array;
  readonly centres: Float32Array;
  /** (rowCount × blockCount·32), and 2^exponent, (rowCount × blockCount) */
  readonly high: Int8Array;
  readonly low: Int8Array;
  readonly powers: Float32Array;
  /** z: (rowCount × blockCount) */
  readonly sums: Float32Array;
  readonly blockCount: number;
}

/** z of every block: the sum of its 32 activations, rounded to 16 bits. The integer below 2^19 is exact in f32. */
function blockSums({ high, low, exponents }: Q15): Float32Array {
  return Float32Array.from(exponents, (exponent, block) => {
    let highSum = 0;
    let lowSum = 0;
    for (let i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
      highSum += high[i];
      lowSum += low[i];
    }
    return r16(128 * highSum + lowSum) * pow2(exponent - 7);
  });
}

function unpackRow(weight: WeightData & { kind: 'q4' }, row: number, operands: Operands): void {
  const { steps, scales, centres, blockCount } = operands;
  for (let b = 0; b < blockCount; b++) {
    const place = row * blockCount + b;
    scales[b] = fromBits(weight.scales[place] << 16);
    centres[b] = fromBits(weight.centres[place] << 16);
    for (let i = 0; i < 16; i++) {
      const pair = weight.nibbles[place * 16 + i];
      steps[b * BLOCK + i] = (pair & 15) - 8;
      steps[b * BLOCK + i + 16] = (pair >> 4) - 8;
    }
  }
}

/** The unpacked output times one row, whose blocks start at `activationBlock`. */
function segmentedDot(operands: Operands, activationBlock: number): number {
  const { steps, scales, centres, high, low, powers, sums, blockCount } = operands;
  const segmentBlocks = Q4_SEGMENT_BLOCKS;
  const block = BLOCK;
  let sum = 0;
  for (let start = 0; start < blockCount; start += segmentBlocks) {
    const end = Math.min(start + segmentBlocks, blockCount);
    let segment = 0;
    for (let b = start; b < end; b++) {
      const w = b * block;
      const x = (activationBlock + b) * block;
      let highDot = 0;
      let lowDot = 0;
      for (let i = 0; i < block; i++) {
        const step = steps[w + i];
        highDot = (highDot + Math.imul(step, high[x + i])) | 0;
        lowDot = (lowDot + Math.imul(step, low[x + i])) | 0;
      }
      const scale = scales[b] * powers[activationBlock + b];
      segment = fround(segment + highDot * scale);
      segment = fround(segment + lowDot * (scale * 2 ** -7));
      segment = fround(segment + sums[activationBlock + b] * centres[b]);
    }
    sum = fround(sum + segment);
  }
  return sum;
}
