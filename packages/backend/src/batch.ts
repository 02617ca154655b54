import { StetError } from './errors.js';

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
  /** (sequenceCount + 1): the block table of s is blocks[blockStarts[s] .. blockStarts[s + 1] - 1]. */
  readonly blockStarts: Int32Array;
  /** Block ids; position p of a sequence is at offset p % blockSize of its block number floor(p / blockSize). */
  readonly blocks: Int32Array;
  /** (outputCount), ascending: the rows whose next-token result is wanted. */
  readonly outputRows: Int32Array;
  /** (outputCount): {@link OUTPUT_ARGMAX} or {@link OUTPUT_LOGITS}. */
  readonly outputKinds: Uint8Array;
}

/** The row wants its arg-max alone. */
export const OUTPUT_ARGMAX = 0;
/** The row wants its arg-max and all its logits. */
export const OUTPUT_LOGITS = 1;

export interface BatchResult {
  /** (outputCount): token of the largest logit, the lowest id among equals. */
  readonly argmax: Int32Array;
  /** (outputCount): that logit. */
  readonly argmaxLogit: Float32Array;
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

export interface BatchLimits {
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly blockSize: number;
  /** Ids 1 .. blockCount - 1 are usable; 0 is the scratch block of fixed-shape backends. */
  readonly blockCount: number;
  readonly maxRows: number;
}

/** Throws `STET_ERR_BAD_BATCH` at the first rule a step breaks; every backend calls it before it touches the device. */
export function checkStep(step: Step, limits: BatchLimits): void {
  if (!step.fast && !step.canonical) bad('a step has no batch');
  if (step.fast) checkBatch(step.fast, limits);
  if (step.canonical) checkBatch(step.canonical, limits);
  if (step.fast && step.canonical) checkDisjoint(step.fast, step.canonical, limits.blockSize);
}

export function checkBatch(batch: Batch, limits: BatchLimits): void {
  const { tokens, positions, rowStarts, blockStarts, blocks, outputRows, outputKinds } = batch;
  const rowCount = tokens.length;
  const sequenceCount = rowStarts.length - 1;
  if (rowCount < 1 || rowCount > limits.maxRows) bad(`${rowCount} rows, allowed are 1 to ${limits.maxRows}`);
  if (positions.length !== rowCount) bad(`${positions.length} positions for ${rowCount} tokens`);
  if (sequenceCount < 1 || blockStarts.length !== sequenceCount + 1) bad('rowStarts and blockStarts do not match');
  if (rowStarts[0] !== 0 || rowStarts[sequenceCount] !== rowCount) bad('rowStarts does not span the rows');
  if (blockStarts[0] !== 0 || blockStarts[sequenceCount] !== blocks.length) bad('blockStarts does not span the blocks');
  for (let row = 0; row < rowCount; row++) {
    const token = tokens[row]!;
    if (token < 0 || token >= limits.vocabSize)
      bad(`row ${row}: token ${token} is outside the vocabulary of ${limits.vocabSize}`);
  }
  for (const [index, block] of blocks.entries()) {
    if (block < 1 || block >= limits.blockCount)
      bad(`block ${block} at index ${index} is outside 1..${limits.blockCount - 1}`);
  }
  for (let s = 0; s < sequenceCount; s++) checkSequence(batch, s, limits);
  checkWrites(batch, limits.blockSize);
  if (outputKinds.length !== outputRows.length) bad('outputKinds and outputRows do not match');
  for (let i = 0; i < outputRows.length; i++) {
    const row = outputRows[i]!;
    if (row < 0 || row >= rowCount || (i > 0 && row <= outputRows[i - 1]!))
      bad(`output row ${row} is out of range or order`);
    if (outputKinds[i] !== OUTPUT_ARGMAX && outputKinds[i] !== OUTPUT_LOGITS)
      bad(`output kind ${outputKinds[i]} is unknown`);
  }
}

function checkSequence(batch: Batch, s: number, limits: BatchLimits): void {
  const start = batch.rowStarts[s]!;
  const end = batch.rowStarts[s + 1]!;
  if (end <= start) bad(`sequence ${s} has no rows`);
  const first = batch.positions[start]!;
  if (first < 0) bad(`row ${start}: position ${first} is negative`);
  for (let row = start; row < end; row++) {
    if (batch.positions[row] !== first + row - start) bad(`row ${row}: positions of a sequence must be consecutive`);
  }
  const last = first + end - start - 1;
  if (last >= limits.contextLength)
    bad(`row ${end - 1}: position ${last} is past the context of ${limits.contextLength}`);
  const tableLength = batch.blockStarts[s + 1]! - batch.blockStarts[s]!;
  if (tableLength * limits.blockSize <= last) bad(`sequence ${s}: ${tableLength} blocks do not hold position ${last}`);
}

/** Blocks that a batch writes: those that hold the positions of its rows. */
function writtenBlocks(batch: Batch, blockSize: number): number[] {
  const written: number[] = [];
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    const first = Math.floor(batch.positions[batch.rowStarts[s]!]! / blockSize);
    const last = Math.floor(batch.positions[batch.rowStarts[s + 1]! - 1]! / blockSize);
    for (let i = first; i <= last; i++) written.push(batch.blocks[batch.blockStarts[s]! + i]!);
  }
  return written;
}

/** The blocks of a table up to the one that holds its sequence's last row: all that a batch may read. */
function readBlocks(batch: Batch, blockSize: number): number[] {
  const read: number[] = [];
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    const last = Math.floor(batch.positions[batch.rowStarts[s + 1]! - 1]! / blockSize);
    for (let i = 0; i <= last; i++) read.push(batch.blocks[batch.blockStarts[s]! + i]!);
  }
  return read;
}

/** No block is written by one sequence and touched by another: results would depend on the order of rows. */
function checkWrites(batch: Batch, blockSize: number): void {
  const written = writtenBlocks(batch, blockSize);
  const writtenSet = new Set(written);
  if (writtenSet.size !== written.length) bad('two sequences of a batch write the same block');
  let touches = 0;
  for (const block of readBlocks(batch, blockSize)) if (writtenSet.has(block)) touches++;
  if (touches !== written.length) bad('a sequence of a batch reads a block that another one writes');
}

function checkDisjoint(fast: Batch, canonical: Batch, blockSize: number): void {
  const pairs: [Batch, Batch][] = [
    [fast, canonical],
    [canonical, fast],
  ];
  for (const [writer, reader] of pairs) {
    const written = new Set(writtenBlocks(writer, blockSize));
    for (const block of readBlocks(reader, blockSize)) {
      if (written.has(block))
        bad(`block ${block} is written by one batch of the step and read or written by the other`);
    }
  }
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_BATCH', message);
}
