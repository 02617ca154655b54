/** Most bytes of the buffer of logits: wanted rows beyond it are computed in further slices. */
const LOGITS_BYTES = 32 * 2 ** 20;

/** A part of the outputs of a batch, whose logits are on the device together. */
export interface OutputSlice {
  /** Index of its first output. */
  readonly first: number;
  readonly count: number;
}

/** Output rows of a slice, at least 1: so many as logits of `byteCount` bytes have room for, and no more than a batch has. */
export function sliceRows(vocabSize: number, maxRows: number, byteCount = LOGITS_BYTES): number {
  return Math.min(maxRows, Math.max(1, Math.floor(byteCount / (vocabSize * 4))));
}

/** The outputs of a batch in slices of at most `most`. */
export function slicesOf(outputCount: number, most: number): OutputSlice[] {
  return Array.from({ length: Math.ceil(outputCount / most) }, (_, i) => ({
    first: i * most,
    count: Math.min(most, outputCount - i * most),
  }));
}
