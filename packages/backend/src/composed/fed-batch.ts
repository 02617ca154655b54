import type { Batch } from '../batch.js';
import type { KvLedger } from './kv-ledger.js';

/** Positions `from` .. `end` - 1 of sequence s of a batch, all lacking. */
export interface FedRange {
  readonly s: number;
  readonly from: number;
  readonly end: number;
}

/** A batch of lacking rows alone, without outputs. Tables are those of the batch that the ranges belong to. */
export function onlyFed(batch: Batch, ranges: readonly FedRange[], ledger: KvLedger): Batch {
  const columns = new Columns(rowsOf(ranges), ranges.length);
  for (const range of ranges) {
    columns.addFed(batch, range, ledger);
    columns.endSequence();
  }
  return {
    ...columns.batch(),
    blockStarts: Int32Array.from(ranges, ({ s }) => batch.blockStarts[s]!),
    blocks: batch.blocks,
    outputRows: new Int32Array(0),
    outputKinds: new Uint8Array(0),
  };
}

/**
 * The batch with lacking rows before the rows of their sequences: the ranges, in the order of their sequences, each end
 * where own rows begin. The outputs are the batch's, so its result is too.
 */
export function joinFed(batch: Batch, ranges: readonly FedRange[], ledger: KvLedger): Batch {
  const columns = new Columns(batch.tokens.length + rowsOf(ranges), batch.blockStarts.length);
  const outputRows = batch.outputRows.slice();
  let nextRange = 0;
  let nextOutput = 0;
  for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
    if (ranges[nextRange]?.s === s) columns.addFed(batch, ranges[nextRange++]!, ledger);
    const end = batch.rowStarts[s + 1]!;
    const shift = columns.rowCount - batch.rowStarts[s]!;
    while (nextOutput < outputRows.length && outputRows[nextOutput]! < end) outputRows[nextOutput++]! += shift;
    columns.addOwn(batch, s);
    columns.endSequence();
  }
  return { ...batch, ...columns.batch(), outputRows };
}

function rowsOf(ranges: readonly FedRange[]): number {
  return ranges.reduce((sum, { from, end }) => sum + end - from, 0);
}

class Columns {
  rowCount = 0;
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #rowStarts: Int32Array;
  #sequenceCount = 0;

  constructor(rowCount: number, sequenceCount: number) {
    this.#tokens = new Int32Array(rowCount);
    this.#positions = new Int32Array(rowCount);
    this.#rowStarts = new Int32Array(sequenceCount + 1);
  }

  addFed(batch: Batch, { s, from, end }: FedRange, ledger: KvLedger): void {
    for (let position = from; position < end; position++) {
      this.#tokens[this.rowCount] = ledger.tokenAt(batch, s, position);
      this.#positions[this.rowCount++] = position;
    }
  }

  addOwn(batch: Batch, s: number): void {
    const start = batch.rowStarts[s]!;
    const end = batch.rowStarts[s + 1]!;
    this.#tokens.set(batch.tokens.subarray(start, end), this.rowCount);
    this.#positions.set(batch.positions.subarray(start, end), this.rowCount);
    this.rowCount += end - start;
  }

  endSequence(): void {
    this.#rowStarts[++this.#sequenceCount] = this.rowCount;
  }

  batch(): Pick<Batch, 'tokens' | 'positions' | 'rowStarts'> {
    return { tokens: this.#tokens, positions: this.#positions, rowStarts: this.#rowStarts };
  }
}
