import { type Batch, type BatchResult, OUTPUT_LOGITS, StetError, tableLength, tableOf } from '@stet/backend';
import type { Addon, NativeHandle } from './addon.js';
import { scheduleNumber } from './options.js';

/** rowCount, sequenceCount, outputCount, length of `blocks`. */
const HEADER = 4;

/**
 * The arrays that one schedule's batches and results pass through. They are kept, and the addon reads and writes them
 * in place; block tables and logits grow to the most that a step has asked for.
 */
export class StepMemory {
  readonly #addon: Addon;
  readonly #handle: NativeHandle;
  readonly #schedule: number;
  readonly #vocabSize: number;
  readonly #blockSize: number;
  readonly #maxRows: number;
  #columns: Int32Array;
  #argmax: Int32Array;
  #argmaxLogit: Float32Array;
  #runnerUpLogit: Float32Array;
  #logits: Float32Array;

  constructor(
    addon: Addon,
    handle: NativeHandle,
    schedule: keyof typeof scheduleNumber,
    sizes: { readonly vocabSize: number; readonly blockSize: number; readonly maxRows: number },
  ) {
    this.#addon = addon;
    this.#handle = handle;
    this.#schedule = scheduleNumber[schedule];
    this.#vocabSize = sizes.vocabSize;
    this.#blockSize = sizes.blockSize;
    this.#maxRows = sizes.maxRows;
    this.#columns = new Int32Array(HEADER + 8 * sizes.maxRows + 2);
    this.#argmax = new Int32Array(sizes.maxRows);
    this.#argmaxLogit = new Float32Array(sizes.maxRows);
    this.#runnerUpLogit = new Float32Array(sizes.maxRows);
    this.#logits = new Float32Array(sizes.vocabSize);
    this.#bind();
  }

  /** Copies a batch that has passed `checkStep`. Throws `STET_ERR_OUT_OF_MEMORY` where a larger array cannot be made. */
  write(batch: Batch): void {
    const { tokens, positions, rowStarts, outputRows, outputKinds } = batch;
    const rowCount = tokens.length;
    const sequenceCount = rowStarts.length - 1;
    const outputCount = outputRows.length;
    this.#reserve(batch);
    const columns = this.#columns;
    let at = HEADER;
    const put = (values: ArrayLike<number>): void => {
      columns.set(values, at);
      at += values.length;
    };
    put(tokens);
    put(positions);
    put(rowStarts);
    const blockStartsAt = at;
    at += sequenceCount + 1;
    put(outputRows);
    put(outputKinds);
    const blocksAt = at;
    for (let s = 0; s < sequenceCount; s++) {
      columns[blockStartsAt + s] = at - blocksAt;
      put(tableOf(batch, s, this.#blockSize));
    }
    columns[blockStartsAt + sequenceCount] = at - blocksAt;
    columns[0] = rowCount;
    columns[1] = sequenceCount;
    columns[2] = outputCount;
    columns[3] = at - blocksAt;
  }

  /** The result of the step that ran on what `write` copied; its arrays are overwritten by the next step. */
  result(batch: Batch): BatchResult {
    const outputCount = batch.outputRows.length;
    return {
      argmax: this.#argmax.subarray(0, outputCount),
      argmaxLogit: this.#argmaxLogit.subarray(0, outputCount),
      runnerUpLogit: this.#runnerUpLogit.subarray(0, outputCount),
      logits: this.#logits.subarray(0, logitsRows(batch) * this.#vocabSize),
    };
  }

  #reserve(batch: Batch): void {
    let blockCount = 0;
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) blockCount += tableLength(batch, s, this.#blockSize);
    const columnCount =
      HEADER + 2 * (batch.tokens.length + batch.rowStarts.length + batch.outputRows.length) + blockCount;
    const logitsCount = logitsRows(batch) * this.#vocabSize;
    // A result's array that its reader has transferred elsewhere has length 0, and is replaced here.
    const perOutput = [this.#argmax, this.#argmaxLogit, this.#runnerUpLogit];
    const isComplete = perOutput.every((array) => array.length === this.#maxRows);
    if (isComplete && this.#columns.length >= columnCount && this.#logits.length >= logitsCount) return;
    try {
      this.#columns = grow(this.#columns, columnCount, (length) => new Int32Array(length));
      this.#logits = grow(this.#logits, logitsCount, (length) => new Float32Array(length));
      this.#argmax = grow(this.#argmax, this.#maxRows, (length) => new Int32Array(length));
      this.#argmaxLogit = grow(this.#argmaxLogit, this.#maxRows, (length) => new Float32Array(length));
      this.#runnerUpLogit = grow(this.#runnerUpLogit, this.#maxRows, (length) => new Float32Array(length));
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      throw new StetError('STET_ERR_OUT_OF_MEMORY', `no memory for ${logitsCount} logits`, { cause });
    }
    this.#bind();
  }

  #bind(): void {
    this.#addon.bind(
      this.#handle,
      this.#schedule,
      this.#columns,
      this.#argmax,
      this.#argmaxLogit,
      this.#runnerUpLogit,
      this.#logits,
    );
  }
}

function logitsRows(batch: Batch): number {
  let count = 0;
  for (const kind of batch.outputKinds) if (kind === OUTPUT_LOGITS) count++;
  return count;
}

/** Its old content is dead: at least twice the size, so that sizes settle after a few steps. */
function grow<T extends { readonly length: number }>(array: T, length: number, allocate: (length: number) => T): T {
  return array.length >= length ? array : allocate(Math.max(length, 2 * array.length));
}
