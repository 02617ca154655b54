import { assertNever, type BufferId, type WeightFormat } from '@stet/backend';
import { prepareQ15 } from '../kernels/prepare-q15.js';
import type { DeviceModel, Q15Rows } from './device-model.js';
import type { KernelCall } from './kernel-call.js';
import type { ProgramScratch } from './scratch.js';

/** What linears take in place of a plan's buffers: byte formats share one preparation until an op writes the buffer again. */
export class PreparedInputs {
  readonly #model: DeviceModel;
  readonly #scratch: ProgramScratch;
  readonly #current = new Set<BufferId>();

  constructor(model: DeviceModel, scratch: ProgramScratch) {
    this.#model = model;
    this.#scratch = scratch;
  }

  /** To be called for every buffer that an op writes. */
  written(buffer: BufferId): void {
    this.#current.delete(buffer);
  }

  /** The input of a linear of that format, and the calls that make it. */
  of(buffer: BufferId, format: WeightFormat): { readonly calls: KernelCall[]; readonly input: GPUBuffer | Q15Rows } {
    const source = this.#model.buffers[buffer]!;
    switch (format) {
      case 'bf16':
        return { calls: [], input: source };
      case 'q8':
      case 'q4': {
        const { width } = this.#model.plan.buffers[buffer]!;
        const prepared = this.#scratch.preparedOf(buffer, width);
        if (this.#current.has(buffer)) return { calls: [], input: prepared };
        this.#current.add(buffer);
        return { calls: [prepareQ15({ input: source, output: prepared, width })], input: prepared };
      }
      default:
        return assertNever(format);
    }
  }
}
