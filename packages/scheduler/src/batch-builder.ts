import { assert, type Batch, OUTPUT_ARGMAX, OUTPUT_LOGITS } from '@stet/backend';
import type { BlockArena } from './block-arena.js';
import type { Sequence } from './sequence.js';

/** Rows of one sequence in a batch. */
export interface RowRange {
  /** Position of the first row. */
  readonly start: number;
  readonly rowCount: number;
  /** Position of the first row that wants output; none does if it is past the last row. */
  readonly outputFrom: number;
  readonly wants: 'argmax' | 'logits';
}

/** Where a range's results stand in the batch's result. */
export interface OutputRange {
  readonly outputIndex: number;
  readonly outputCount: number;
  /** Number of rows of logits before its own. */
  readonly logitsIndex: number;
}

/** Columns of one batch, filled range by range. Its arrays are reused, and its tables stand in the arena: a batch lives until the next `reset`. */
export class BatchBuilder {
  private readonly arena: BlockArena;
  private readonly maxRows: number;
  private readonly tokens: Int32Array;
  private readonly positions: Int32Array;
  private readonly rowStarts: Int32Array;
  private readonly blockStarts: Int32Array;
  private readonly outputRows: Int32Array;
  private readonly outputKinds: Uint8Array;
  private rows = 0;
  private sequences = 0;
  private outputs = 0;
  private logits = 0;

  constructor(arena: BlockArena, maxRows: number) {
    this.arena = arena;
    this.maxRows = maxRows;
    this.tokens = new Int32Array(maxRows);
    this.positions = new Int32Array(maxRows);
    this.rowStarts = new Int32Array(maxRows + 1);
    this.blockStarts = new Int32Array(maxRows);
    this.outputRows = new Int32Array(maxRows);
    this.outputKinds = new Uint8Array(maxRows);
  }

  get rowCount(): number {
    return this.rows;
  }

  reset(): void {
    this.rows = 0;
    this.sequences = 0;
    this.outputs = 0;
    this.logits = 0;
  }

  /** Adds rows of a sequence whose table holds all their positions. */
  add(sequence: Sequence, range: RowRange): OutputRange {
    assert(
      this.rows + range.rowCount <= this.maxRows && range.rowCount > 0,
      `${range.rowCount} rows do not fit into the batch`,
    );
    const output = this.addRows(sequence, range);
    this.endSequence(this.arena.place(sequence.table));
    return output;
  }

  /** Adds rows of a fixed window: those of the range, then padding up to `windowTokens`, which writes K/V that nobody reads. */
  addWindow(sequence: Sequence, range: RowRange, windowTokens: number): OutputRange {
    assert(this.rows + windowTokens <= this.maxRows, 'a window does not fit into the batch');
    const output = this.addRows(sequence, range);
    this.addPadding(range.start + range.rowCount, windowTokens - range.rowCount);
    this.endSequence(this.arena.place(sequence.table));
    return output;
  }

  /** Adds a window without work: it writes block 0. */
  addScratch(windowTokens: number, blockCount: number): void {
    assert(this.rows + windowTokens <= this.maxRows, 'a scratch window does not fit into the batch');
    this.addPadding(0, windowTokens);
    this.endSequence(this.arena.placeZeros(blockCount));
  }

  /** The batch, or undefined without rows. */
  build(): Batch | undefined {
    if (this.rows === 0) return undefined;
    return {
      tokens: this.tokens.subarray(0, this.rows),
      positions: this.positions.subarray(0, this.rows),
      rowStarts: this.rowStarts.subarray(0, this.sequences + 1),
      blockStarts: this.blockStarts.subarray(0, this.sequences),
      blocks: this.arena.blocks,
      outputRows: this.outputRows.subarray(0, this.outputs),
      outputKinds: this.outputKinds.subarray(0, this.outputs),
    };
  }

  private addRows(sequence: Sequence, range: RowRange): OutputRange {
    const output: OutputRange = {
      outputIndex: this.outputs,
      outputCount: Math.max(0, range.start + range.rowCount - Math.max(range.start, range.outputFrom)),
      logitsIndex: this.logits,
    };
    for (let i = 0; i < range.rowCount; i++) {
      const position = range.start + i;
      this.tokens[this.rows] = sequence.tokenAt(position);
      this.positions[this.rows] = position;
      if (position >= range.outputFrom) this.addOutput(range.wants);
      this.rows++;
    }
    return output;
  }

  private addPadding(start: number, rowCount: number): void {
    for (let i = 0; i < rowCount; i++) {
      this.tokens[this.rows] = 0;
      this.positions[this.rows++] = start + i;
    }
  }

  private addOutput(wants: 'argmax' | 'logits'): void {
    this.outputRows[this.outputs] = this.rows;
    this.outputKinds[this.outputs++] = wants === 'logits' ? OUTPUT_LOGITS : OUTPUT_ARGMAX;
    if (wants === 'logits') this.logits++;
  }

  private endSequence(blockStart: number): void {
    this.blockStarts[this.sequences++] = blockStart;
    this.rowStarts[this.sequences] = this.rows;
  }
}
