import {
  type Batch,
  type BatchLimits,
  type CanonicalShape,
  OUTPUT_ARGMAX,
  OUTPUT_LOGITS,
  type Step,
  tableLength,
} from './batch.js';
import { StetError } from './errors.js';

/** Throws `STET_ERR_BAD_BATCH` at the first rule a step breaks; every backend calls it before it touches the device. */
export function checkStep(step: Step, limits: BatchLimits): void {
  createStepChecker(limits)(step);
}

/**
 * {@link checkStep} for a backend that lives long: linear in rows and block ids, and it allocates nothing per step,
 * since the one scratch array (blockCount) is kept.
 */
export function createStepChecker(limits: BatchLimits): (step: Step) => void {
  /** writtenIn[block] === epoch: this step writes the block. Never cleared between steps: the epoch grows instead. */
  const writtenIn = new Int32Array(limits.blockCount);
  let epoch = 0;
  return ({ fast, canonical }) => {
    if (!fast && !canonical) bad('a step has no batch');
    if (fast) checkBatch('fast', fast, limits);
    if (canonical) {
      checkBatch('canonical', canonical, limits);
      if (limits.canonicalShape) checkShape(canonical, limits.canonicalShape);
    }
    if (epoch === LAST_EPOCH) writtenIn.fill(0);
    epoch = epoch === LAST_EPOCH ? 1 : epoch + 1;
    if (fast) markWrites('fast', fast, limits.blockSize, writtenIn, epoch);
    if (canonical) markWrites('canonical', canonical, limits.blockSize, writtenIn, epoch);
    if (fast) checkReads('fast', fast, limits.blockSize, writtenIn, epoch);
    if (canonical) checkReads('canonical', canonical, limits.blockSize, writtenIn, epoch);
  };
}

const LAST_EPOCH = 2 ** 31 - 1;

type Schedule = keyof Step;

function checkBatch(schedule: Schedule, batch: Batch, limits: BatchLimits): void {
  const { tokens, positions, rowStarts, blockStarts } = batch;
  const rowCount = tokens.length;
  const sequenceCount = rowStarts.length - 1;
  if (rowCount < 1 || rowCount > limits.maxRows) {
    bad(`the ${schedule} batch has ${rowCount} rows, allowed are 1 to ${limits.maxRows}`);
  }
  if (positions.length !== rowCount) bad(`${schedule}: ${positions.length} positions for ${rowCount} tokens`);
  if (sequenceCount < 1 || blockStarts.length !== sequenceCount) {
    bad(`${schedule}: rowStarts has ${rowStarts.length} entries and blockStarts ${blockStarts.length}`);
  }
  if (rowStarts[0] !== 0 || rowStarts[sequenceCount] !== rowCount) bad(`${schedule}: rowStarts does not span the rows`);
  for (let row = 0; row < rowCount; row++) {
    const token = tokens[row]!;
    if (token < 0 || token >= limits.vocabSize) {
      bad(`${schedule} row ${row}: token ${token} is outside the vocabulary of ${limits.vocabSize}`);
    }
  }
  const hasScratch = schedule === 'canonical' && limits.canonicalShape !== undefined;
  for (let s = 0; s < sequenceCount; s++) {
    checkSequence(schedule, batch, s, limits);
    const start = batch.blockStarts[s]!;
    const end = start + tableLength(batch, s, limits.blockSize);
    if (start < 0 || end > batch.blocks.length) {
      bad(
        `${schedule}: the table of sequence ${s}, entries ${start} to ${end - 1}, leaves the ${batch.blocks.length} blocks`,
      );
    }
    if (!(hasScratch && isScratch(batch, start, end))) checkBlocks(schedule, batch, start, end, limits.blockCount);
  }
  checkOutputs(schedule, batch);
}

function checkBlocks(schedule: Schedule, batch: Batch, start: number, end: number, blockCount: number): void {
  for (let index = start; index < end; index++) {
    const block = batch.blocks[index]!;
    if (block < 1 || block >= blockCount) {
      bad(`${schedule}: block ${block} at index ${index} is outside 1..${blockCount - 1}`);
    }
  }
}

/** A place of a fixed-shape batch without work: all its blocks are block 0. */
function isScratch(batch: Batch, start: number, end: number): boolean {
  for (let index = start; index < end; index++) {
    if (batch.blocks[index] !== 0) return false;
  }
  return true;
}

function checkShape(batch: Batch, shape: CanonicalShape): void {
  const sequenceCount = batch.rowStarts.length - 1;
  if (sequenceCount !== shape.sequenceCount) {
    bad(`canonical: ${sequenceCount} sequences, the fixed shape has ${shape.sequenceCount}`);
  }
  for (let s = 0; s < sequenceCount; s++) {
    const rowCount = batch.rowStarts[s + 1]! - batch.rowStarts[s]!;
    const first = batch.positions[batch.rowStarts[s]!]!;
    if (rowCount !== shape.windowTokens || first % shape.windowTokens !== 0) {
      bad(
        `canonical: sequence ${s} has ${rowCount} rows from position ${first}, not a window of ${shape.windowTokens}`,
      );
    }
  }
}

function checkSequence(schedule: Schedule, batch: Batch, s: number, limits: BatchLimits): void {
  const start = batch.rowStarts[s]!;
  const end = batch.rowStarts[s + 1]!;
  if (end <= start) bad(`${schedule}: sequence ${s} has no rows`);
  const first = batch.positions[start]!;
  if (first < 0) bad(`${schedule} row ${start}: position ${first} is negative`);
  for (let row = start; row < end; row++) {
    if (batch.positions[row] !== first + row - start) {
      bad(`${schedule} row ${row}: positions of a sequence must be consecutive`);
    }
  }
  const last = first + end - start - 1;
  if (last >= limits.contextLength) {
    bad(`${schedule} row ${end - 1}: position ${last} is past the context of ${limits.contextLength}`);
  }
}

function checkOutputs(schedule: Schedule, batch: Batch): void {
  const { outputRows, outputKinds, tokens } = batch;
  if (outputKinds.length !== outputRows.length) {
    bad(`${schedule}: ${outputKinds.length} outputKinds for ${outputRows.length} outputRows`);
  }
  for (let i = 0; i < outputRows.length; i++) {
    const row = outputRows[i]!;
    if (row < 0 || row >= tokens.length) bad(`${schedule}: output row ${row} does not exist`);
    if (i > 0 && row <= outputRows[i - 1]!) bad(`${schedule}: output row ${row} is not after the one before it`);
    if (outputKinds[i] !== OUTPUT_ARGMAX && outputKinds[i] !== OUTPUT_LOGITS) {
      bad(`${schedule}: output kind ${outputKinds[i]} is unknown`);
    }
  }
}

/** Index in the block table of the first block that sequence s writes. */
function firstWritten(batch: Batch, s: number, blockSize: number): number {
  return Math.floor(batch.positions[batch.rowStarts[s]!]! / blockSize);
}

/** No block is written twice in a step. */
function markWrites(schedule: Schedule, batch: Batch, blockSize: number, writtenIn: Int32Array, epoch: number): void {
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    const length = tableLength(batch, s, blockSize);
    for (let i = firstWritten(batch, s, blockSize); i < length; i++) {
      const block = batch.blocks[batch.blockStarts[s]! + i]!;
      if (block === 0) continue;
      if (writtenIn[block] === epoch) bad(`${schedule}: block ${block} of sequence ${s} is written twice in this step`);
      writtenIn[block] = epoch;
    }
  }
}

/** No block that is written in a step is read there by another sequence, nor a second time through the same table. */
function checkReads(schedule: Schedule, batch: Batch, blockSize: number, writtenIn: Int32Array, epoch: number): void {
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    const end = batch.blockStarts[s]! + firstWritten(batch, s, blockSize);
    for (let index = batch.blockStarts[s]!; index < end; index++) {
      const block = batch.blocks[index]!;
      if (writtenIn[block] === epoch) bad(`${schedule}: sequence ${s} reads block ${block}, which this step writes`);
    }
  }
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_BATCH', message);
}
