import type { Batch, Step, StepResult } from '@stet/backend';
import { inScopes, throwErrors } from '../device/error-scopes.js';
import { GPU_MAP_READ, GPU_USAGE, type GpuMemory } from '../device/memory.js';
import { lossOf, type WebGpu } from '../device/web-gpu.js';
import type { DeviceModel } from '../program/device-model.js';
import type { ProgramScratch } from '../program/scratch.js';
import { BatchStep } from './batch-step.js';
import type { ResultPlace } from './results.js';
import { StepEncoder } from './step-encoder.js';

const SCHEDULES = ['fast', 'canonical'] as const;

/** A batch of a step, and where its results are read back. */
interface Part {
  readonly schedule: keyof Step;
  readonly batch: Batch;
  readonly step: BatchStep;
  readonly place: ResultPlace;
}

/** Runs steps of a model, one at a time: one submission, then one buffer is read back. */
export class StepRunner {
  readonly #gpu: WebGpu;
  readonly #memory: GpuMemory;
  readonly #steps: Readonly<Record<keyof Step, BatchStep>>;
  #readback: GPUBuffer | undefined;

  private constructor(gpu: WebGpu, memory: GpuMemory, steps: Readonly<Record<keyof Step, BatchStep>>) {
    this.#gpu = gpu;
    this.#memory = memory;
    this.#steps = steps;
  }

  static async create(
    gpu: WebGpu,
    memory: GpuMemory,
    model: DeviceModel,
    scratch: ProgramScratch,
  ): Promise<StepRunner> {
    const canonical = await BatchStep.create(gpu, memory, model, scratch, 'canonical');
    const fast = await BatchStep.create(gpu, memory, model, scratch, 'fast');
    return new StepRunner(gpu, memory, { fast, canonical });
  }

  /**
   * Runs a step that has passed `checkStep`; its arrays are read before this returns. Rejects with `STET_ERR_DEVICE_LOST`,
   * `STET_ERR_OUT_OF_MEMORY`, `STET_ERR_UNSUPPORTED` for results over the device's limits, `STET_ERR_BACKEND_FAILED`.
   */
  async run(step: Step): Promise<StepResult> {
    try {
      if (this.#isReady(step)) return await this.#run(step);
      // The arrays are the caller's again once this waits.
      const kept = copyOf(step);
      for (const schedule of SCHEDULES) await (kept[schedule] && this.#steps[schedule].prepare(kept[schedule]));
      return await this.#run(kept);
    } catch (error) {
      // It may be waiting to be mapped, or not exist.
      if (this.#readback) this.#memory.free(this.#readback);
      this.#readback = undefined;
      throw error;
    }
  }

  #isReady(step: Step): boolean {
    return SCHEDULES.every((schedule) => !step[schedule] || this.#steps[schedule].isReady(step[schedule]));
  }

  async #run(step: Step): Promise<StepResult> {
    const { device } = this.#gpu;
    const { parts, byteCount } = this.#placed(step);
    for (const part of parts) part.step.reserve(part.place);
    const { result, errors } = inScopes(device, () => {
      const readback = this.#reserve(byteCount);
      const encoder = new StepEncoder(device);
      for (const { step: batchStep, batch, place } of parts) batchStep.encode(encoder, batch, readback, place);
      device.queue.submit([encoder.finish()]);
      return { readback, mapped: readback.mapAsync(GPU_MAP_READ, 0, byteCount) };
    });
    await this.#settle(result.mapped, errors);
    const bytes = result.readback.getMappedRange(0, byteCount);
    const entries = parts.map((part) => [part.schedule, part.step.result(part.batch, bytes, part.place)]);
    result.readback.unmap();
    return Object.fromEntries(entries) as StepResult;
  }

  async #settle(mapped: Promise<undefined>, errors: Parameters<typeof throwErrors>[2]): Promise<void> {
    // If both fail, the errors say why.
    mapped.catch(() => undefined);
    await throwErrors(this.#gpu, 'the step', errors);
    try {
      await this.#gpu.unlessLost(mapped);
    } catch (cause) {
      throw await lossOf(this.#gpu, cause, 'reading the results of a step');
    }
    this.#gpu.checkErrors();
  }

  #placed(step: Step): { parts: Part[]; byteCount: number } {
    let byteCount = 0;
    const parts: Part[] = [];
    for (const schedule of SCHEDULES) {
      const batch = step[schedule];
      if (!batch) continue;
      const place = this.#steps[schedule].place(batch, byteCount);
      byteCount = place.end;
      parts.push({ schedule, batch, step: this.#steps[schedule], place });
    }
    return { parts, byteCount };
  }

  /** A buffer that can be read, of at least so many bytes. */
  #reserve(byteCount: number): GPUBuffer {
    const old = this.#readback;
    if (old && old.size >= byteCount) return old;
    const wanted = Math.min(Math.max(byteCount, 2 * (old?.size ?? 0)), this.#gpu.device.limits.maxBufferSize);
    if (old) this.#memory.free(old);
    this.#readback = undefined;
    this.#readback = this.#memory.allocate(
      'results of a step',
      Math.max(byteCount, wanted),
      GPU_USAGE.MAP_READ | GPU_USAGE.COPY_DST,
    );
    return this.#readback;
  }
}

function copyOf(step: Step): Step {
  return Object.fromEntries(Object.entries(step).map(([schedule, batch]) => [schedule, copyBatch(batch)]));
}

function copyBatch(batch: Batch): Batch {
  const columns = Object.entries(batch) as [keyof Batch, Batch[keyof Batch]][];
  return Object.fromEntries(columns.map(([name, column]) => [name, column.slice()])) as unknown as Batch;
}
