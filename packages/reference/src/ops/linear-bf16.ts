import { BF16_SEGMENT } from '@stet/backend/numerics';
import { r16 } from '../primitives.js';
import type { LinearCall, OutputRange } from './linear.js';

const { fround } = Math;

/**
 * bf16 weights (8 bits) times activations of 16 bits: every product is exact. Sums go up in k within segments of 256,
 * then over the segments; the bias comes last.
 */
export function linearBf16(call: LinearCall, bits: Uint16Array): OutputRange {
  const { rows, columns, bias, rowCount, output } = call;
  const activations = new Float32Array(rowCount * columns);
  for (let i = 0; i < activations.length; i++) activations[i] = r16(call.input[i]);
  const weights = new Float32Array(columns);
  const weightBits = new Uint32Array(weights.buffer);

  return (from, to) => {
    for (let n = from; n < to; n++) {
      for (let k = 0; k < columns; k++) weightBits[k] = bits[n * columns + k] << 16;
      for (let row = 0; row < rowCount; row++) {
        const sum = segmentedDot(weights, activations, row * columns, columns);
        output[row * rows + n] = bias ? fround(sum + bias[n]) : sum;
      }
    }
  };
}

function segmentedDot(weights: Float32Array, activations: Float32Array, offset: number, columns: number): number {
  let sum = 0;
  for (let start = 0; start < columns; start += BF16_SEGMENT) {
    const end = Math.min(start + BF16_SEGMENT, columns);
    let segment = 0;
    for (let k = start; k < end; k++) segment = fround(segment + weights[k] * activations[offset + k]);
    sum = fround(sum + segment);
  }
  return sum;
}
