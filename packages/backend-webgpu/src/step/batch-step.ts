import { type Batch, type BatchResult, OUTPUT_LOGITS, type Step } from '@stet/backend';
import { checked } from '../device/error-scopes.js';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { WebGpu } from '../device/web-gpu.js';
import { ARGMAX_BYTES, argmaxCalls } from '../kernels/argmax.js';
import { compilePlan } from '../program/compile-plan.js';
import type { DeviceModel } from '../program/device-model.js';
import type { BatchSize } from '../program/kernel-call.js';
import { type OutputSlice, slicesOf } from '../program/output-slices.js';
import { Program } from '../program/program.js';
import type { ProgramScratch } from '../program/scratch.js';
import { BatchColumns } from './batch-columns.js';
import { logitsRowsOf, type ResultPlace, Results } from './results.js';
import type { StepEncoder } from './step-encoder.js';

interface BatchStepParts {
  readonly columns: BatchColumns;
  readonly rows: Program;
  readonly slices: readonly Program[];
  readonly answers: GPUBuffer;
}

/** All that runs the batches of one schedule: programs, columns and results. */
export class BatchStep {
  readonly #model: DeviceModel;
  readonly #scratch: ProgramScratch;
  readonly #parts: BatchStepParts;
  readonly #results: Results;

  private constructor(model: DeviceModel, scratch: ProgramScratch, parts: BatchStepParts) {
    this.#model = model;
    this.#scratch = scratch;
    this.#parts = parts;
    this.#results = new Results(model.plan.vocabSize, model.maxRows);
  }

  /** Rejects where the device has no room for its buffers. */
  static async create(
    gpu: WebGpu,
    memory: GpuMemory,
    model: DeviceModel,
    scratch: ProgramScratch,
    schedule: keyof Step,
  ): Promise<BatchStep> {
    const { maxRows, plan } = model;
    const { sliceRows, logits, partials } = scratch;
    const sizes = { maxRows, sliceRows, blockSize: model.kvLayout.blockSize };
    const { columns, answers } = await checked(gpu, 'buffers of batches', () => ({
      columns: new BatchColumns(gpu.device, memory, sizes),
      answers: memory.allocate('results', maxRows * ARGMAX_BYTES, GPU_USAGE.STORAGE | GPU_USAGE.COPY_SRC),
    }));
    const calls = compilePlan(model, scratch, schedule);
    const rows = new Program(gpu, memory, calls.rows, columns.ofRows);
    const slices = columns.ofSlices.map((buffers, index) => {
      const results = { results: answers, firstRow: index * sliceRows };
      const argmax = argmaxCalls({ logits, vocabSize: plan.vocabSize, partials, ...results });
      return new Program(gpu, memory, [...calls.outputs, ...argmax], buffers);
    });
    return new BatchStep(model, scratch, { columns, rows, slices, answers });
  }

  /** Whether {@link prepare} has nothing to do for a batch. */
  isReady(batch: Batch): boolean {
    return this.#programsOf(batch).every(({ program, size }) => program.isReady(size));
  }

  /** Makes the pipelines that a batch needs. Rejects with `STET_ERR_BACKEND_FAILED` where a kernel does not compile. */
  async prepare(batch: Batch): Promise<void> {
    await Promise.all(this.#programsOf(batch).map(({ program, size }) => program.prepare(size)));
  }

  #programsOf(batch: Batch): { readonly program: Program; readonly size: BatchSize }[] {
    const { rows, slices } = this.#parts;
    const size = sizeOf(batch);
    const used = slicesOf(batch.outputRows.length, this.#scratch.sliceRows);
    return [
      { program: rows, size },
      ...used.map(({ count }, index) => ({ program: slices[index]!, size: sliceSize(size, count) })),
    ];
  }

  /** Bytes that {@link encode} copies for a batch, and where: from `offset` on. */
  place(batch: Batch, offset: number): ResultPlace & { readonly end: number } {
    const logitsRows = logitsRowsOf(batch);
    const logits = offset + answerBytes(batch);
    return { answers: offset, logits, logitsRows, end: logits + logitsRows * this.#model.plan.vocabSize * 4 };
  }

  /** Makes room for the results of a step. Throws `STET_ERR_OUT_OF_MEMORY`. */
  reserve({ logitsRows }: ResultPlace): void {
    this.#results.reserve(logitsRows);
  }

  /** Writes a batch that has passed `checkStep` to the device and records its kernels and the copies of its results. */
  encode(encoder: StepEncoder, batch: Batch, readback: GPUBuffer, place: ResultPlace): void {
    const { columns, rows, slices, answers } = this.#parts;
    const used = slicesOf(batch.outputRows.length, this.#scratch.sliceRows);
    if (columns.write(batch, used)) {
      rows.rebind(columns.ofRows);
      for (const [index, buffers] of columns.ofSlices.entries()) slices[index]!.rebind(buffers);
    }
    const size = sizeOf(batch);
    rows.encode(encoder.pass, size);
    let logitsEnd = place.logits;
    for (const [index, slice] of used.entries()) {
      slices[index]!.encode(encoder.pass, sliceSize(size, slice.count));
      logitsEnd = this.#copyLogits(encoder, batch, slice, readback, logitsEnd);
    }
    encoder.copy(answers, 0, readback, place.answers, answerBytes(batch));
  }

  /** Copies the rows of a slice that were asked for, neighbours together; returns where they end. */
  #copyLogits(
    encoder: StepEncoder,
    { outputKinds }: Batch,
    { first, count }: OutputSlice,
    readback: GPUBuffer,
    offset: number,
  ): number {
    const rowBytes = this.#model.plan.vocabSize * 4;
    let end = offset;
    for (let i = first; i < first + count; ) {
      if (outputKinds[i] !== OUTPUT_LOGITS) {
        i++;
        continue;
      }
      const begin = i;
      while (i < first + count && outputKinds[i] === OUTPUT_LOGITS) i++;
      const byteCount = (i - begin) * rowBytes;
      encoder.copy(this.#scratch.logits, (begin - first) * rowBytes, readback, end, byteCount);
      end += byteCount;
    }
    return end;
  }

  result(batch: Batch, bytes: ArrayBuffer, place: ResultPlace): BatchResult {
    return this.#results.read(batch, bytes, place);
  }
}

/** Also of a batch that wants nothing: what is read back says when it has run. */
function answerBytes({ outputRows }: Batch): number {
  return Math.max(1, outputRows.length) * ARGMAX_BYTES;
}

/** The rows of a slice of outputs are those outputs. */
function sliceSize(size: BatchSize, count: number): BatchSize {
  return { ...size, rowCount: count, outputCount: count };
}

function sizeOf({ tokens, positions, rowStarts, outputRows }: Batch): BatchSize {
  let positionCount = 0;
  for (const position of positions) positionCount = Math.max(positionCount, position + 1);
  return {
    rowCount: tokens.length,
    outputCount: outputRows.length,
    positionCount,
    sequenceCount: rowStarts.length - 1,
  };
}
