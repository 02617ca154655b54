import { type Batch, OUTPUT_LOGITS } from '@stet/backend';

/** Rows `start` .. `start + rowCount - 1` of one sequence that owns the blocks firstBlock, firstBlock + 1, …; all rows want logits. */
export function rowsOf(
  tokens: ArrayLike<number>,
  start: number,
  rowCount: number,
  firstBlock: number,
  blockSize: number,
): Batch {
  const indices = Array.from({ length: rowCount }, (_, i) => i);
  const blocks = Int32Array.from({ length: Math.ceil((start + rowCount) / blockSize) }, (_, i) => firstBlock + i);
  return {
    tokens: Int32Array.from(indices, (i) => tokens[start + i]!),
    positions: Int32Array.from(indices, (i) => start + i),
    rowStarts: Int32Array.of(0, rowCount),
    blockStarts: Int32Array.of(0),
    blocks,
    outputRows: Int32Array.from(indices),
    outputKinds: new Uint8Array(rowCount).fill(OUTPUT_LOGITS),
  };
}

/** Batches of one sequence each, side by side as one. */
export function joinBatches(batches: readonly Batch[]): Batch {
  const concat = (parts: readonly Int32Array[]) => Int32Array.from(parts.flatMap((part) => Array.from(part)));
  const starts = (lengths: readonly number[]) =>
    Int32Array.from([0, ...lengths].map((_, i) => lengths.slice(0, i).reduce((a, b) => a + b, 0)));
  const rowStarts = starts(batches.map((batch) => batch.tokens.length));
  return {
    tokens: concat(batches.map((batch) => batch.tokens)),
    positions: concat(batches.map((batch) => batch.positions)),
    rowStarts,
    blockStarts: starts(batches.map((batch) => batch.blocks.length)).subarray(0, -1),
    blocks: concat(batches.map((batch) => batch.blocks)),
    outputRows: concat(batches.map((batch, i) => batch.outputRows.map((row) => row + rowStarts[i]!))),
    outputKinds: Uint8Array.from(batches.flatMap((batch) => Array.from(batch.outputKinds))),
  };
}
