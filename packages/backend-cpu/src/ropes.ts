import { setImmediate } from 'node:timers/promises';
import type { Plan, Step } from '@stet/backend';
import { ropeTables } from '@stet/backend/numerics';
import type { Addon, NativeHandle } from './addon.js';

/** Positions whose tables are made at a time, in a few milliseconds at most, so that the event loop lives. */
const SLICE_POSITIONS = 256;

/**
 * The rope tables of a runtime, made as far as its steps have come: those of a whole long context would take seconds of
 * this thread and tens of megabytes, mostly for positions that nobody reaches.
 */
export class Ropes {
  readonly #addon: Addon;
  readonly #handle: NativeHandle;
  readonly #plan: Plan;
  /** Positions below it have their tables. */
  #reach = 0;

  constructor(addon: Addon, handle: NativeHandle, plan: Plan) {
    this.#addon = addon;
    this.#handle = handle;
    this.#plan = plan;
  }

  /** Whether a step can run without `extendTo`. */
  reaches(positionCount: number): boolean {
    return positionCount <= this.#reach;
  }

  /** Makes the tables of all positions below `positionCount`. Not while the runtime has a request. */
  async extendTo(positionCount: number): Promise<void> {
    for (;;) {
      this.#extend(Math.min(SLICE_POSITIONS, this.#plan.contextLength - this.#reach));
      if (this.reaches(positionCount)) return;
      await setImmediate();
    }
  }

  #extend(count: number): void {
    for (const [index, rope] of this.#plan.ropes.entries()) {
      const { cosine, sine } = ropeTables(rope, count, this.#reach);
      this.#addon.extendRope(this.#handle, index, cosine, sine);
    }
    this.#reach += count;
  }
}

/** Positions that the batches of a checked step reach: one more than the highest. */
export function positionsReached({ fast, canonical }: Step): number {
  let count = 0;
  for (const batch of [fast, canonical]) {
    for (let s = 1; batch && s < batch.rowStarts.length; s++) {
      count = Math.max(count, batch.positions[batch.rowStarts[s] - 1] + 1);
    }
  }
  return count;
}
