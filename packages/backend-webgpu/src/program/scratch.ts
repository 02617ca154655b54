import type { BufferId, Plan } from '@stet/backend';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import { argmaxPartialBytes } from '../kernels/argmax.js';
import { partialBytes } from '../kernels/attention-shape.js';
import { type DeviceModel, type Q15Rows, q15PlaneBytes, q15ScaleBytes } from './device-model.js';
import { sliceRows } from './output-slices.js';

/** Buffers for what the calls of a plan put down in between. Both schedules share them: their batches run one after the other. */
export class ProgramScratch {
  /** Output rows of a slice: rows of `normed`, `logits`. */
  readonly sliceRows: number;
  /** f32 (sliceRows × width of the logits op's input): the wanted rows, normalized. */
  readonly normed: GPUBuffer;
  /** f32 (sliceRows × vocabSize) */
  readonly logits: GPUBuffer;
  /** Answers of parts of the vocabulary. */
  readonly partials: GPUBuffer;
  /** What chunks of attention that run side by side leave behind. */
  readonly attentionPartials: GPUBuffer;
  readonly #memory: GpuMemory;
  readonly #maxRows: number;
  readonly #prepared = new Map<BufferId, Q15Rows>();
  #preparedNormed: Q15Rows | undefined;
  readonly #headWidth: number;

  constructor(
    memory: GpuMemory,
    { plan, maxRows, kvLayout }: Pick<DeviceModel, 'plan' | 'maxRows' | 'kvLayout'>,
    logitsBytes?: number,
  ) {
    this.#memory = memory;
    this.#maxRows = maxRows;
    this.#headWidth = plan.buffers[logitsOp(plan).input]!.width;
    this.sliceRows = sliceRows(plan.vocabSize, maxRows, logitsBytes);
    this.normed = this.storage('normalized rows', this.sliceRows * this.#headWidth * 4);
    this.logits = memory.allocate(
      'logits',
      this.sliceRows * plan.vocabSize * 4,
      GPU_USAGE.STORAGE | GPU_USAGE.COPY_SRC,
    );
    this.partials = this.storage('parts of arg-max', argmaxPartialBytes(plan.vocabSize, this.sliceRows));
    const attentions = plan.ops.filter((op) => op.kind === 'attention');
    const bytes = attentions.map((op) => partialBytes({ ...op, layout: kvLayout }, maxRows, plan.contextLength));
    this.attentionPartials = this.storage('chunks of attention', Math.max(0, ...bytes));
  }

  storage(label: string, byteCount: number): GPUBuffer {
    return this.#memory.allocate(label, byteCount, GPU_USAGE.STORAGE);
  }

  /** Where the inputs that byte linears take from a plan's buffer are put (maxRows × width). */
  preparedOf(buffer: BufferId, width: number): Q15Rows {
    let rows = this.#prepared.get(buffer);
    if (!rows) {
      rows = this.#q15Rows(width, this.#maxRows);
      this.#prepared.set(buffer, rows);
    }
    return rows;
  }

  /** The same of `normed`. */
  preparedNormed(): Q15Rows {
    this.#preparedNormed ??= this.#q15Rows(this.#headWidth, this.sliceRows);
    return this.#preparedNormed;
  }

  #q15Rows(width: number, rowCount: number): Q15Rows {
    return {
      planes: this.storage('planes of inputs', rowCount * q15PlaneBytes(width)),
      scales: this.storage('scales of inputs', rowCount * q15ScaleBytes(width)),
    };
  }
}

/** The last op of a plan that `checkPlan` has passed. */
export function logitsOp(plan: Plan): Plan['ops'][number] & { kind: 'logits' } {
  const op = plan.ops.at(-1);
  if (op?.kind !== 'logits') throw new Error('assertion failed: the last op is not logits');
  return op;
}
