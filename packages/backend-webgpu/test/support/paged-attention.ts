import { type OpCase, paddedHeadSize } from '@stet/backend';
import { allocateQ15, quantizeQ15, runOp } from '@stet/reference';
import { type Attention64, attention64 } from '@stet/reference/float64';
import { attentionCalls } from '../../src/kernels/attention.js';
import { fastAttentionCalls } from '../../src/kernels/attention-fast.js';
import { partialBytes } from '../../src/kernels/attention-shape.js';
import { kvWrite } from '../../src/kernels/kv-write.js';
import { kvLayout } from '../../src/kv/kv-layout.js';
import type { OpScratch } from '../../src/op-runner/op-scratch.js';
import type { KernelCall } from '../../src/program/kernel-call.js';
import { Random } from './random.js';

export interface PagedShape {
  readonly kvHeadCount: number;
  /** Query heads of a K/V head. */
  readonly share: number;
  readonly headSize: number;
  readonly blockSize: number;
  readonly windowSize?: number | undefined;
  /** By sequence: its positions, and how many of the last of them are rows of the batch. */
  readonly sequences: readonly { readonly positionCount: number; readonly rowCount: number }[];
  /** Values about `scale`, or of any magnitude from 2^-60 to 2^60. */
  readonly values: 'plain' | 'wild';
  readonly scale: number;
  readonly seed: number;
}

type AttentionCase = OpCase & { kind: 'attention' };

/** Sequences whose blocks lie scattered over one pool. */
export class PagedAttention {
  readonly shape: PagedShape;
  /** One by itself each. */
  readonly cases: readonly AttentionCase[];

  constructor(shape: PagedShape) {
    this.shape = shape;
    const random = new Random(shape.seed);
    this.cases = shape.sequences.map((sequence) => caseOf(shape, sequence, random));
  }

  /** (rowCount × headCount·headSize) of all sequences, one after the other. */
  expected(): Float32Array {
    return concat(this.cases.map(runOp));
  }

  /** The same in f64, of K and V as they are stored, and how far an f32 kernel may be off. */
  expected64(): { values: Float64Array; tolerances: Float64Array } {
    const parts = this.cases.map(yardstick);
    return {
      values: Float64Array.from(parts.flatMap(({ values }) => [...values])),
      tolerances: Float64Array.from(parts.flatMap(({ tolerances }) => [...tolerances])),
    };
  }

  /** What the kernels make of it, in a pool that held something else before. `room` is what of the partials there is. */
  async run(scratch: OpScratch, schedule: 'fast' | 'canonical', room: 'all' | 'none' = 'all'): Promise<Float32Array> {
    const { kvHeadCount, share, blockSize, windowSize, seed } = this.shape;
    const random = new Random(seed + 1);
    const headCount = kvHeadCount * share;
    const { tables, tableStarts, blockCount } = this.#tables(random);
    const layout = kvLayout(this.shape, blockSize, blockCount);
    const kv = {
      keys: garbage(scratch, random, layout.layerBytes),
      values: garbage(scratch, random, layout.layerBytes),
    };
    const lengths = this.shape.sequences.map(({ positionCount }) => positionCount);
    const write = kvWrite({
      key: scratch.upload(concat(this.cases.map(({ key }) => key))),
      value: scratch.upload(concat(this.cases.map(({ value }) => value))),
      kv,
      layout,
    });
    const written = {
      rowCount: lengths.reduce((sum, length) => sum + length, 0),
      positions: Int32Array.from(lengths.flatMap((length) => [...Array(length).keys()])),
      table: tables,
      tableStarts: spreadOver(tableStarts, lengths),
    };
    await scratch.run([write], written, kv.keys, 1);

    const query = concat(this.cases.map((input) => input.query));
    const rowCounts = this.cases.map(({ queryPositions }) => queryPositions.length);
    const rowCount = rowCounts.reduce((sum, count) => sum + count, 0);
    const byteCount = partialBytes({ headCount, layout, windowSize }, rowCount, Math.max(...lengths));
    const output = scratch.empty(query.byteLength);
    const partials = scratch.empty(room === 'all' ? byteCount : 0);
    const call = { query: scratch.upload(query), output, kv, layout, headCount, windowSize, partials };
    const calls: KernelCall[] = schedule === 'fast' ? fastAttentionCalls(call) : attentionCalls(call);
    const positions = Int32Array.from(this.cases.flatMap(({ queryPositions }) => [...queryPositions]));
    const batch = { rowCount, positions, table: tables, tableStarts: spreadOver(tableStarts, rowCounts) };
    return scratch.run(calls, batch, output, query.length);
  }

  /** Tables one after the other with gaps between them, of blocks in random order, of which the pool has more. */
  #tables(random: Random): { tables: Int32Array; tableStarts: number[]; blockCount: number } {
    const counts = this.shape.sequences.map(({ positionCount }) => Math.ceil(positionCount / this.shape.blockSize));
    const blockCount = counts.reduce((sum, count) => sum + count, 0) + 3;
    const free = Array.from({ length: blockCount }, (_, block) => block);
    const take = (): number => free.splice(random.between(0, free.length - 1), 1)[0]!;
    const tables: number[] = [];
    const tableStarts = counts.map((count) => {
      tables.push(-1);
      for (let i = 0; i < count; i++) tables.push(take());
      return tables.length - count;
    });
    return { tables: Int32Array.from(tables), tableStarts, blockCount };
  }
}

function caseOf(
  { kvHeadCount, share, headSize, blockSize, windowSize, values, scale }: PagedShape,
  { positionCount, rowCount }: { readonly positionCount: number; readonly rowCount: number },
  random: Random,
): AttentionCase {
  const headCount = kvHeadCount * share;
  const kvLength = positionCount * kvHeadCount * headSize;
  const floats = (length: number): Float32Array =>
    values === 'wild' ? random.wildFloats(length, -60, 60) : random.floats(length, scale);
  return {
    kind: 'attention',
    headCount,
    kvHeadCount,
    headSize,
    blockSize,
    ...(windowSize === undefined ? {} : { windowSize }),
    key: floats(kvLength),
    value: floats(kvLength),
    query: floats(rowCount * headCount * headSize),
    queryPositions: Int32Array.from({ length: rowCount }, (_, row) => positionCount - rowCount + row),
  };
}

/**
 * An f32 score is off by less than 2^-20 of the sum of the magnitudes of its products, in powers of two; a weight by ln 2 times
 * that and 2^-18 for exp2 and the sums; the output, a mean of V, by twice as much of the mean of V's magnitudes.
 */
function yardstick(input: AttentionCase): { values: Float64Array; tolerances: Float64Array } {
  const { kvHeadCount, headCount, headSize, queryPositions } = input;
  const key = stored(input.key, headSize);
  const value = stored(input.value, headSize);
  const positionCount = key.length / (kvHeadCount * headSize);
  const width = headCount * headSize;
  const query = new Float64Array(positionCount * width);
  for (const [row, p] of queryPositions.entries()) {
    query.set(input.query.subarray(row * width, (row + 1) * width), p * width);
  }
  const call = { key, value, query, headCount, kvHeadCount, headSize, windowSize: input.windowSize };
  const rowsOf = (all: Float64Array): Float64Array =>
    Float64Array.from([...queryPositions].flatMap((p) => [...all.subarray(p * width, (p + 1) * width)]));
  const magnitudes = attention64({ ...call, value: value.map(Math.abs) });
  const tolerances = new Float64Array(query.length);
  for (let start = 0; start < query.length; start += headSize) {
    const weight = 2 * (Math.LN2 * 2 ** -20 * scoreMagnitude(call, start) + 2 ** -18);
    for (let i = start; i < start + headSize; i++) tolerances[i] = weight * magnitudes[i]!;
  }
  return { values: rowsOf(attention64(call)), tolerances: rowsOf(tolerances) };
}

/** The largest sum of magnitudes of the products of a score of the query at `start`, in powers of two. */
function scoreMagnitude({ key, query, kvHeadCount, headCount, headSize }: Attention64, start: number): number {
  const kvHead = Math.floor((((start / headSize) % headCount) * kvHeadCount) / headCount);
  let most = 0;
  for (let k = kvHead * headSize; k < key.length; k += kvHeadCount * headSize) {
    let sum = 0;
    for (let i = 0; i < headSize; i++) sum += Math.abs(query[start + i]! * key[k + i]!);
    most = Math.max(most, sum);
  }
  return (most * Math.LOG2E) / Math.sqrt(headSize);
}

/** K or V after its way through Q15. */
function stored(values: Float32Array, headSize: number): Float64Array {
  const head = allocateQ15(paddedHeadSize(headSize));
  const result = new Float64Array(values.length);
  for (let start = 0; start < values.length; start += headSize) {
    quantizeQ15(values, start, headSize, head, 0);
    for (let i = 0; i < headSize; i++) {
      const exponent = head.exponents[Math.floor(i / 32)]!;
      result[start + i] = (128 * head.high[i]! + head.low[i]!) * 2 ** (exponent - 7);
    }
  }
  return result;
}

function garbage(scratch: OpScratch, random: Random, byteCount: number): GPUBuffer {
  return scratch.upload(Uint32Array.from({ length: byteCount / 4 }, () => random.unit() * 2 ** 32));
}

function spreadOver(tableStarts: readonly number[], counts: readonly number[]): Int32Array {
  return Int32Array.from(counts.flatMap((count, s) => Array<number>(count).fill(tableStarts[s]!)));
}

function concat(parts: readonly Float32Array[]): Float32Array {
  return Float32Array.from(parts.flatMap((part) => [...part]));
}
