import { type Batch, tableLength } from '@stet/backend';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { OutputSlice } from '../program/output-slices.js';
import type { BatchBuffers } from '../program/program.js';

/** Words of `struct Batch` in prelude.wgsl, and of a row in `rows`. */
const BATCH_WORDS = 4;
const ROW_WORDS = 4;
const FIRST_TABLE_IDS = 256;

export interface BatchSizes {
  readonly maxRows: number;
  readonly sliceRows: number;
  readonly blockSize: number;
}

/** The columns of one schedule's batches on the device. Its arrays and buffers are kept; that of block ids grows. */
export class BatchColumns {
  readonly #device: GPUDevice;
  readonly #memory: GpuMemory;
  readonly #sizes: BatchSizes;
  readonly #rows: Int32Array<ArrayBuffer>;
  readonly #batch = new Uint32Array(BATCH_WORDS);
  readonly #own: Pick<BatchBuffers, 'batch' | 'rows' | 'outputs'>;
  /** `batch` and `outputs` of each slice of outputs. */
  readonly #ofSlices: readonly Pick<BatchBuffers, 'batch' | 'outputs'>[];
  #tables: GPUBuffer;

  constructor(device: GPUDevice, memory: GpuMemory, sizes: BatchSizes) {
    const { maxRows, sliceRows } = sizes;
    this.#device = device;
    this.#memory = memory;
    this.#sizes = sizes;
    this.#rows = new Int32Array(maxRows * ROW_WORDS);
    this.#own = {
      batch: this.#uniform(),
      rows: this.#storage('rows', maxRows * ROW_WORDS),
      outputs: this.#storage('outputs', maxRows),
    };
    this.#ofSlices = Array.from({ length: Math.ceil(maxRows / sliceRows) }, () => ({
      batch: this.#uniform(),
      outputs: this.#storage('outputs of a slice', sliceRows),
    }));
    this.#tables = this.#storage('block tables', FIRST_TABLE_IDS);
  }

  /** What the calls for all rows bind. */
  get ofRows(): BatchBuffers {
    return { ...this.#own, tables: this.#tables };
  }

  /** What the calls for each slice of outputs bind. */
  get ofSlices(): BatchBuffers[] {
    return this.#ofSlices.map((slice) => ({ ...slice, rows: this.#own.rows, tables: this.#tables }));
  }

  /** Copies a batch that has passed `checkStep`. True where a buffer had to be replaced, so that all must be bound again. */
  write(batch: Batch, slices: readonly OutputSlice[]): boolean {
    const { rowStarts } = batch;
    const outputRows = writable(batch.outputRows);
    const { queue } = this.#device;
    const rowCount = batch.tokens.length;
    const firstId = firstTableId(batch);
    const isReplaced = this.#writeTables(batch, firstId);
    for (let s = 0; s + 1 < rowStarts.length; s++) this.#fillRows(batch, s, batch.blockStarts[s]! - firstId);
    queue.writeBuffer(this.#own.rows, 0, this.#rows, 0, rowCount * ROW_WORDS);
    this.#writeBatch(this.#own.batch, rowCount, outputRows.length);
    if (outputRows.length > 0) queue.writeBuffer(this.#own.outputs, 0, outputRows, 0, outputRows.length);
    for (const [index, { first, count }] of slices.entries()) {
      const slice = this.#ofSlices[index]!;
      this.#writeBatch(slice.batch, count, count);
      queue.writeBuffer(slice.outputs, 0, outputRows, first, count);
    }
    return isReplaced;
  }

  #fillRows(batch: Batch, s: number, table: number): void {
    const rows = this.#rows;
    const end = batch.rowStarts[s + 1]!;
    for (let row = batch.rowStarts[s]!; row < end; row++) {
      rows[ROW_WORDS * row] = batch.tokens[row]!;
      rows[ROW_WORDS * row + 1] = batch.positions[row]!;
      rows[ROW_WORDS * row + 2] = table;
    }
  }

  /** `rowCount`, `outputCount` and the 0 that no compiler knows. */
  #writeBatch(buffer: GPUBuffer, rowCount: number, outputCount: number): void {
    this.#batch[0] = rowCount;
    this.#batch[1] = outputCount;
    this.#device.queue.writeBuffer(buffer, 0, this.#batch);
  }

  /** The part of the batch's `blocks` that holds all tables, as it is. */
  #writeTables(batch: Batch, firstId: number): boolean {
    const count = lastTableId(batch, this.#sizes.blockSize) - firstId;
    const isTooSmall = count * 4 > this.#tables.size;
    if (isTooSmall) {
      const capacity = Math.max(count, this.#tables.size / 2);
      this.#memory.free(this.#tables);
      this.#tables = this.#storage('block tables', capacity);
    }
    this.#device.queue.writeBuffer(this.#tables, 0, writable(batch.blocks), firstId, count);
    return isTooSmall;
  }

  #uniform(): GPUBuffer {
    return this.#memory.allocate('batch', BATCH_WORDS * 4, GPU_USAGE.UNIFORM | GPU_USAGE.COPY_DST);
  }

  #storage(label: string, wordCount: number): GPUBuffer {
    return this.#memory.allocate(label, wordCount * 4, GPU_USAGE.STORAGE | GPU_USAGE.COPY_DST);
  }
}

function firstTableId({ blockStarts }: Batch): number {
  let first = blockStarts[0]!;
  for (const start of blockStarts) first = Math.min(first, start);
  return first;
}

function lastTableId(batch: Batch, blockSize: number): number {
  let last = 0;
  for (let s = 0; s < batch.blockStarts.length; s++) {
    last = Math.max(last, batch.blockStarts[s]! + tableLength(batch, s, blockSize));
  }
  return last;
}

/** The specification lets `writeBuffer` take shared memory as well; its types do not. */
function writable(values: Int32Array): Int32Array<ArrayBuffer> {
  return values as Int32Array<ArrayBuffer>;
}
