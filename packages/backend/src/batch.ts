/**
 * Rows to run, as columns. Row r feeds `tokens[r]` at `positions[r]`, writes its K/V at that position of its
 * sequence's block table and attends to positions 0..positions[r] of it. Rows of one sequence are adjacent and
 * their positions are consecutive. Positions before the first row's must have been written by earlier batches.
 */
export interface Batch {
  /** (rowCount) */
  readonly tokens: Int32Array;
  /** (rowCount) */
  readonly positions: Int32Array;
  /** (sequenceCount + 1): rows rowStarts[s] .. rowStarts[s + 1] - 1 belong to sequence s; none is empty. */
  readonly rowStarts: Int32Array;
  /**
   * (sequenceCount): the block table of s begins at blocks[blockStarts[s]] and has as many entries as the position p of
   * its last row needs, floor(p / blockSize) + 1. Tables stand anywhere in `blocks`, in any order, with gaps between
   * them that nobody reads; tables that are equal may share their entries.
   */
  readonly blockStarts: Int32Array;
  /** Block ids; position p of a sequence is at offset p % blockSize of its block number floor(p / blockSize). */
  readonly blocks: Int32Array;
  /** (outputCount), ascending: the rows whose next-token result is wanted. */
  readonly outputRows: Int32Array;
  /** (outputCount): {@link OUTPUT_ARGMAX} or {@link OUTPUT_LOGITS}. */
  readonly outputKinds: Uint8Array;
}

/** The block table of sequence s, (floor(last position / blockSize) + 1): a view of the batch's `blocks`. */
export function tableOf(batch: Batch, s: number, blockSize: number): Int32Array {
  const start = batch.blockStarts[s]!;
  return batch.blocks.subarray(start, start + tableLength(batch, s, blockSize));
}

/** Entries of the block table of sequence s: the position of its last row needs so many. */
export function tableLength(batch: Batch, s: number, blockSize: number): number {
  return Math.floor(batch.positions[batch.rowStarts[s + 1]! - 1]! / blockSize) + 1;
}

/** The row wants its arg-max alone: the token, its logit and the runner-up logit. */
export const OUTPUT_ARGMAX = 0;
/** The row wants its arg-max and all its logits. */
export const OUTPUT_LOGITS = 1;

export interface BatchResult {
  /** (outputCount): token of the largest logit, the lowest id among equals. */
  readonly argmax: Int32Array;
  /** (outputCount): that logit. */
  readonly argmaxLogit: Float32Array;
  /**
   * (outputCount): the largest logit of the other tokens, so equal to `argmaxLogit` where several are largest; -Infinity
   * in a vocabulary of 1.
   */
  readonly runnerUpLogit: Float32Array;
  /** (number of OUTPUT_LOGITS rows × vocabSize), in the order of outputRows. */
  readonly logits: Float32Array;
}

/** One step: at most one batch of each schedule, at least one of them. The two write different blocks and neither reads what the other writes. */
export interface Step {
  readonly fast?: Batch;
  readonly canonical?: Batch;
}

export interface StepResult {
  readonly fast?: BatchResult;
  readonly canonical?: BatchResult;
}

/**
 * The one shape in which a `fixed-shape` backend runs its canonical batch: so many sequences of so many rows, the first
 * row of each at a multiple of `windowTokens`. Places without work are filled with scratch sequences, whose block table
 * is block 0 throughout.
 */
export interface CanonicalShape {
  readonly sequenceCount: number;
  readonly windowTokens: number;
}

export interface BatchLimits {
  /** Present for `fixed-shape` backends alone. */
  readonly canonicalShape?: CanonicalShape;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly blockSize: number;
  /** Ids 1 .. blockCount - 1 are usable; 0 is the scratch block of fixed-shape backends. */
  readonly blockCount: number;
  readonly maxRows: number;
}
