import { BF16_SEGMENT } from '@stet/backend/numerics';
import { r16 } from '../primitives.js';
import type { LinearCall, OutputRange } from './linear.js';

const { fround } = Math;

/** Rows that are computed side by side: the sums of a row are one long chain, and four chains take the time of one. */
const ROW_GROUP = 4;

/**
 * bf16 weights (8 bits) times activations of 16 bits: every product is exact. Sums go up in k within segments of 256,
 * then over the segments; the bias comes last.
 */
export function linearBf16(call: LinearCall, bits: Uint16Array): OutputRange {
  const { rows, columns, bias, rowCount, output } = call;
  const activations = new Float32Array(Math.ceil(rowCount / ROW_GROUP) * ROW_GROUP * columns);
  for (let i = 0; i < rowCount * columns; i++) activations[i] = r16(call.input[i]);
  const weights = new Float32Array(columns);
  const weightBits = new Uint32Array(weights.buffer);
  const sums = new Float32Array(ROW_GROUP);

  return (from, to) => {
    for (let n = from; n < to; n++) {
      for (let k = 0; k < columns; k++) weightBits[k] = bits[n * columns + k] << 16;
      for (let first = 0; first < rowCount; first += ROW_GROUP) {
        segmentedDots(weights, activations, first * columns, columns, sums);
        for (let row = first; row < Math.min(first + ROW_GROUP, rowCount); row++) {
          output[row * rows + n] = bias ? fround(sums[row - first] + bias[n]) : sums[row - first];
        }
      }
    }
  };
}

function segmentedDots(
  weights: Float32Array,
  activations: Float32Array,
  offset: number,
  columns: number,
  sums: Float32Array,
): void {
  const x0 = activations.subarray(offset, offset + columns);
  const x1 = activations.subarray(offset + columns, offset + 2 * columns);
  const x2 = activations.subarray(offset + 2 * columns, offset + 3 * columns);
  const x3 = activations.subarray(offset + 3 * columns, offset + 4 * columns);
  sums.fill(0);
  for (let start = 0; start < columns; start += BF16_SEGMENT) {
    const end = Math.min(start + BF16_SEGMENT, columns);
    let segment0 = 0;
    let segment1 = 0;
    let segment2 = 0;
    let segment3 = 0;
    for (let k = start; k < end; k++) {
      const weight = weights[k];
      segment0 = fround(segment0 + weight * x0[k]);
      segment1 = fround(segment1 + weight * x1[k]);
      segment2 = fround(segment2 + weight * x2[k]);
      segment3 = fround(segment3 + weight * x3[k]);
    }
    sums[0] = fround(sums[0] + segment0);
    sums[1] = fround(sums[1] + segment1);
    sums[2] = fround(sums[2] + segment2);
    sums[3] = fround(sums[3] + segment3);
  }
}
