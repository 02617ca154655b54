import { paddedHeadSize } from '@stet/backend';
import { ATTENTION_CHUNK, attentionScale, BLOCK, pow2 } from '@stet/backend/numerics';
import { type KvLayer, kvOffset } from '../kv-store.js';
import { exp2q, itof, recip, rshift, scaleDown, truncateQ16 } from '../primitives.js';
import { allocateQ15, type Q15, quantizeQ15 } from './q15.js';

const { fround } = Math;

/** Arrays that attention needs for one head size; they carry nothing from one call to the next. */
export interface AttentionScratch {
  readonly scale: number;
  readonly padded: number;
  readonly query: Q15;
  /** (ATTENTION_CHUNK): integer parts n_j and powers E_j of the chunk's scores. */
  readonly integers: Int32Array;
  readonly powers: Int32Array;
  /** (padded): the running output and the sums of a chunk. */
  readonly output: Float32Array;
  readonly highSums: Int32Array;
  readonly mixedSums: Int32Array;
  /** (padded / 32): the exponent that the sums of a block of V are relative to. */
  readonly blockMaxima: Int32Array;
}

export function allocateAttention(headSize: number): AttentionScratch {
  const padded = paddedHeadSize(headSize);
  return {
    scale: attentionScale(headSize),
    padded,
    query: allocateQ15(padded),
    integers: new Int32Array(ATTENTION_CHUNK),
    powers: new Int32Array(ATTENTION_CHUNK),
    output: new Float32Array(padded),
    highSums: new Int32Array(padded),
    mixedSums: new Int32Array(padded),
    blockMaxima: new Int32Array(padded / BLOCK),
  };
}

/** The first position that a row at `position` attends to: the last `windowSize` count, its own among them. */
export function firstAttended(position: number, windowSize: number | undefined): number {
  return windowSize === undefined ? 0 : Math.max(0, position - windowSize + 1);
}

/**
 * One query head, input[offset .. offset + headSize - 1], over positions first .. position of its sequence; the result
 * goes to the same place of `output`. Chunks of 64 positions, by absolute position, are summed in integers, where order
 * is free, and joined in ascending order. Chunks before the one that holds `first` are not looked at, and that one
 * counts only from `first` on; no other slot is read.
 */
export function attention(
  scratch: AttentionScratch,
  layer: KvLayer,
  kvHead: number,
  slots: Int32Array,
  first: number,
  position: number,
  input: Float32Array,
  offset: number,
  output: Float32Array,
): void {
  quantizeQ15(input, offset, layer.headSize, scratch.query, 0);
  let max = 0;
  let denominator = 0;
  scratch.output.fill(0);
  for (let start = first; start <= position; ) {
    const end = Math.min(position + 1, start - (start % ATTENTION_CHUNK) + ATTENTION_CHUNK);
    const count = end - start;
    const chunkMax = scoreChunk(scratch, layer, kvHead, slots, start, count);
    const newMax = start === first ? chunkMax : Math.max(max, chunkMax);
    const oldShift = start === first ? 0 : newMax - max;
    const chunkShift = newMax - chunkMax;
    denominator = fround(
      scaleDown(denominator, oldShift) + scaleDown(chunkDenominator(scratch, chunkMax, count), chunkShift),
    );
    sumChunk(scratch, layer, kvHead, slots, start, count);
    joinChunk(scratch, chunkMax, oldShift, chunkShift);
    max = newMax;
    start = end;
  }
  const inverse = recip(denominator);
  for (let i = 0; i < layer.headSize; i++) output[offset + i] = fround(scratch.output[i] * inverse);
}

/** Scores of a chunk as 2^(integers[j] + log2 of powers[j] / 2^13); returns the largest integer part. */
function scoreChunk(
  scratch: AttentionScratch,
  layer: KvLayer,
  kvHead: number,
  slots: Int32Array,
  start: number,
  count: number,
): number {
  let max = Number.NEGATIVE_INFINITY;
  for (let j = 0; j < count; j++) {
    const score = dot(scratch.query, layer.key, kvOffset(layer, slots[start + j], kvHead), scratch.padded);
    const t = truncateQ16(fround(score * scratch.scale));
    scratch.integers[j] = t >> 16;
    scratch.powers[j] = exp2q(t & 0xffff) >> 2;
    if (scratch.integers[j] > max) max = scratch.integers[j];
  }
  return max;
}

/** q·k: blocks ascending, the product of the high planes before the mixed ones; low·low is left out by definition. */
function dot(query: Q15, key: Q15, keyOffset: number, padded: number): number {
  const { high: queryHigh, low: queryLow } = query;
  const { high: keyHigh, low: keyLow } = key;
  let score = 0;
  for (let block = 0; block < padded; block += BLOCK) {
    const end = block + BLOCK;
    let high = 0;
    let mixed = 0;
    for (let i = block; i < end; i++) {
      const q = queryHigh[i];
      const k = keyHigh[keyOffset + i];
      high = (high + Math.imul(q, k)) | 0;
      mixed = (mixed + Math.imul(q, keyLow[keyOffset + i]) + Math.imul(queryLow[i], k)) | 0;
    }
    const exponent = query.exponents[block / BLOCK] + key.exponents[(keyOffset + block) / BLOCK];
    score = fround(score + high * pow2(exponent));
    score = fround(score + mixed * pow2(exponent - 7));
  }
  return score;
}

/** l_c: an integer below 2^20, relative to 2^chunkMax. */
function chunkDenominator(scratch: AttentionScratch, chunkMax: number, count: number): number {
  let sum = 0;
  for (let j = 0; j < count; j++) sum += rshift(scratch.powers[j], chunkMax - scratch.integers[j]);
  return sum;
}

/** Weighted sums of V: highSums and mixedSums, i32, relative to 2^blockMaxima of their block. */
function sumChunk(
  scratch: AttentionScratch,
  layer: KvLayer,
  kvHead: number,
  slots: Int32Array,
  start: number,
  count: number,
): void {
  const { high, low, exponents } = layer.value;
  const { highSums, mixedSums, integers, powers, blockMaxima } = scratch;
  highSums.fill(0);
  mixedSums.fill(0);
  for (let block = 0; block < scratch.padded; block += BLOCK) {
    const end = block + BLOCK;
    let max = Number.NEGATIVE_INFINITY;
    for (let j = 0; j < count; j++) {
      const value = kvOffset(layer, slots[start + j], kvHead) + block;
      max = Math.max(max, integers[j] + exponents[value / BLOCK]);
    }
    blockMaxima[block / BLOCK] = max;
    for (let j = 0; j < count; j++) {
      const value = kvOffset(layer, slots[start + j], kvHead) + block;
      const power = rshift(powers[j], max - integers[j] - exponents[value / BLOCK]);
      const powerHigh = power >> 7;
      const powerLow = power & 127;
      for (let i = block, v = value; i < end; i++, v++) {
        highSums[i] += Math.imul(powerHigh, high[v]);
        mixedSums[i] += Math.imul(powerHigh, low[v]) + Math.imul(powerLow, high[v]);
      }
    }
  }
}

/** Adds the sums of a chunk to the running output, both brought to the larger of the two maxima. */
function joinChunk(scratch: AttentionScratch, chunkMax: number, oldShift: number, chunkShift: number): void {
  const { output, highSums, mixedSums, blockMaxima } = scratch;
  for (let i = 0; i < scratch.padded; i++) {
    const block = Math.floor(i / BLOCK);
    const value = itof(128 * highSums[i] + mixedSums[i]) * pow2(blockMaxima[block] - chunkMax);
    output[i] = fround(scaleDown(output[i], oldShift) + scaleDown(value, chunkShift));
  }
}
