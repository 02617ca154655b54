import type { RopeSpec } from '@stet/backend';

/** input / sqrt(mean(input²) + epsilon) · weight, by rows, or groups of a row, as wide as the weight. */
export function rmsNorm64(input: Float64Array, weight: Float32Array, epsilon: number): Float64Array {
  const width = weight.length;
  const output = new Float64Array(input.length);
  for (let start = 0; start < input.length; start += width) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += input[start + i] ** 2;
    const inverse = 1 / Math.sqrt(sum / width + epsilon);
    for (let i = 0; i < width; i++) output[start + i] = input[start + i] * inverse * weight[i];
  }
  return output;
}

/** Rotates the heads of row p by position p, in place; the angles are not rounded. */
export function rope64(x: Float64Array, headCount: number, rope: RopeSpec): void {
  const half = rope.inverseFrequencies.length;
  for (let offset = 0; offset < x.length; offset += 2 * half) {
    const position = Math.floor(offset / (2 * half * headCount));
    for (let i = 0; i < half; i++) {
      const angle = position * rope.inverseFrequencies[i];
      const c = Math.cos(angle) * rope.attentionFactor;
      const s = Math.sin(angle) * rope.attentionFactor;
      const a = x[offset + i];
      const b = x[offset + half + i];
      x[offset + i] = a * c - b * s;
      x[offset + half + i] = a * s + b * c;
    }
  }
}

export interface Attention64 {
  /** (positionCount × kvHeadCount·headSize) */
  readonly key: Float64Array;
  readonly value: Float64Array;
  /** (positionCount × headCount·headSize): row p attends to positions 0..p, or to the last `windowSize` of them. */
  readonly query: Float64Array;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly windowSize: number | undefined;
}

/** Causal softmax attention; the result has the shape of the query. */
export function attention64(input: Attention64): Float64Array {
  const { query, headCount, kvHeadCount, headSize } = input;
  const output = new Float64Array(query.length);
  for (let offset = 0; offset < query.length; offset += headSize) {
    const head = (offset / headSize) % headCount;
    const position = Math.floor(offset / (headSize * headCount));
    attendHead(input, offset, Math.floor((head * kvHeadCount) / headCount), position, output);
  }
  return output;
}

function attendHead(input: Attention64, offset: number, kvHead: number, position: number, output: Float64Array): void {
  const { key, value, query, kvHeadCount, headSize } = input;
  const kvStart = (p: number): number => (p * kvHeadCount + kvHead) * headSize;
  const first = input.windowSize === undefined ? 0 : Math.max(0, position - input.windowSize + 1);
  const scores = new Float64Array(position + 1 - first);
  for (let p = first; p <= position; p++) {
    let score = 0;
    for (let i = 0; i < headSize; i++) score += query[offset + i] * key[kvStart(p) + i];
    scores[p - first] = score / Math.sqrt(headSize);
  }
  const max = scores.reduce((a, b) => Math.max(a, b));
  let denominator = 0;
  for (let p = first; p <= position; p++) {
    const weight = Math.exp(scores[p - first] - max);
    denominator += weight;
    for (let i = 0; i < headSize; i++) output[offset + i] += weight * value[kvStart(p) + i];
  }
  for (let i = 0; i < headSize; i++) output[offset + i] /= denominator;
}

/** silu(gate) · up */
export function swiglu64(gate: Float64Array, up: Float64Array): Float64Array {
  return gate.map((g, i) => (g / (1 + Math.exp(-g))) * up[i]);
}
