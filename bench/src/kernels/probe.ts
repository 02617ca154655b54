import { type Batch, OUTPUT_ARGMAX, type Plan } from '@stet/backend';
import { joinBatches, rowsOf } from '../batches.js';
import { PROBE_VOCAB } from './plan-builder.js';

export const BLOCK_SIZE = 16;

/** What one run of an operation has to do at least. */
export interface KernelWork {
  /** Read and written once: weights, K/V, f32 rows. */
  readonly bytes: number;
  /** A multiplication and an addition are two; 0 where it is not products that take the time. */
  readonly operations: number;
}

/** `all`: the operation so many times; `rest`: the same plan without it. */
export type ProbePart = 'all' | 'rest';

/** One kind of operation of a model, in plans of its own. */
export interface KernelProbe {
  readonly kernel: string;
  /** Of the weights it reads; `–` where it reads none. */
  readonly format: string;
  /** Most times that a plan has it, e.g. because each has weights of its own. */
  readonly maxCopies: number;
  plan(copies: number, part: ProbePart): Plan;
  work(rowCount: number): KernelWork;
  batch(rowCount: number): Batch;
  /** K/V blocks that the batches need, block 0 included. */
  blockCount(maxRows: number): number;
  /** Batches to be run before, which write what others attend to. */
  context?(maxRows: number): readonly Batch[];
}

/** Rows of one sequence from position 0 on; the last one wants its arg-max. */
export function oneSequence(rowCount: number, start = 0): Batch {
  return lastOutput(rowsOf(tokens(start + rowCount), start, rowCount, 1, BLOCK_SIZE));
}

/** One sequence, every row of which wants its arg-max. */
export function withAllOutputs(batch: Batch): Batch {
  const rowCount = batch.tokens.length;
  return {
    ...batch,
    outputRows: Int32Array.from({ length: rowCount }, (_, row) => row),
    outputKinds: new Uint8Array(rowCount).fill(OUTPUT_ARGMAX),
  };
}

/** Sequences of one row at position `start`, a multiple of the block size. They share the blocks before it, as a common prefix. */
export function manySequences(count: number, start: number): Batch {
  const shared = start / BLOCK_SIZE;
  const one = Int32Array.from({ length: shared + 1 }, (_, i) => i + 1);
  const blocks = new Int32Array(count * one.length);
  for (let s = 0; s < count; s++) {
    one[shared] = 1 + shared + s;
    blocks.set(one, s * one.length);
  }
  return lastOutput({
    tokens: tokens(count),
    positions: new Int32Array(count).fill(start),
    rowStarts: Int32Array.from({ length: count + 1 }, (_, s) => s),
    blockStarts: Int32Array.from({ length: count }, (_, s) => s * one.length),
    blocks,
    outputRows: new Int32Array(0),
    outputKinds: new Uint8Array(0),
  });
}

/**
 * Batches that write the blocks of `start` positions. Each block is written as if it were the first of a sequence, for K/V of a
 * probe depend on nothing but the token, and rows that attend to little are quick.
 */
export function fillBatches(start: number, maxRows: number): Batch[] {
  const blocks = Array.from({ length: start / BLOCK_SIZE }, (_, i) => i + 1);
  const perBatch = Math.max(1, Math.floor(maxRows / BLOCK_SIZE));
  const batches: Batch[] = [];
  for (let i = 0; i < blocks.length; i += perBatch) {
    const some = blocks.slice(i, i + perBatch);
    const joined = joinBatches(some.map((block) => rowsOf(tokens(BLOCK_SIZE), 0, BLOCK_SIZE, block, BLOCK_SIZE)));
    batches.push({ ...joined, outputRows: new Int32Array(0), outputKinds: new Uint8Array(0) });
  }
  return batches;
}

function lastOutput(batch: Batch): Batch {
  const last = batch.tokens.length - 1;
  return { ...batch, outputRows: Int32Array.of(last), outputKinds: Uint8Array.of(OUTPUT_ARGMAX) };
}

function tokens(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => (i * 7) % PROBE_VOCAB);
}
