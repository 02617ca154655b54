/**
 * Numbers the kernels take from the host as bits, so that no device computes them for itself.
 * All are rounded to f32 once.
 */

// biome-ignore lint/suspicious/noApproximativeNumericConstant: written out, so that its bits stand here
const LOG2E = 1.4426950408889634;

/** Elements of a quantized block: weights, activations and K/V. */
export const BLOCK = 32;
/** Blocks of a `q8` linear whose terms are added before the segments are. */
export const Q8_SEGMENT_BLOCKS = 8;
/** The same of a `q4` linear. */
export const Q4_SEGMENT_BLOCKS = 8;
/** Inputs of a `bf16` linear whose products are added before the segments are. */
export const BF16_SEGMENT = 256;
/** Partial sums of rmsNorm. */
export const NORM_LANES = 128;
/** Positions of an attention chunk, by absolute position. */
export const ATTENTION_CHUNK = 64;

/** fl(d·eps) and fl(sqrt d) of rmsNorm over d elements. */
export function rmsNormConstants(width: number, epsilon: number): { scaledEpsilon: number; rootWidth: number } {
  return { scaledEpsilon: Math.fround(width * epsilon), rootWidth: Math.fround(Math.sqrt(width)) };
}

/** C of attention: fl(65536·log2(e) / sqrt(headSize)), from the unpadded head size. */
export function attentionScale(headSize: number): number {
  return Math.fround((65536 * LOG2E) / Math.sqrt(headSize));
}

/** fl(65536·log2 e) of swiglu: 94548.4609375. */
export const SWIGLU_SCALE = Math.fround(65536 * LOG2E);
