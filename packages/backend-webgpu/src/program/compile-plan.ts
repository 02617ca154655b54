import { assertNever, type Step } from '@stet/backend';
import { canonicalCalls } from './canonical-program.js';
import type { DeviceModel } from './device-model.js';
import { fastCalls } from './fast-program.js';
import type { KernelCall } from './kernel-call.js';
import type { ProgramScratch } from './scratch.js';

/** A plan as calls. */
export interface PlanCalls {
  /** All ops but the last, for all rows of a batch. */
  readonly rows: readonly KernelCall[];
  /** The logits op, for a slice of the wanted rows; its logits are in `ProgramScratch.logits`. */
  readonly outputs: readonly KernelCall[];
}

/** Compiles a plan that `checkLoad` has passed. Allocates what the calls need in between. */
export function compilePlan(model: DeviceModel, scratch: ProgramScratch, schedule: keyof Step): PlanCalls {
  switch (schedule) {
    case 'canonical':
      return canonicalCalls(model, scratch);
    case 'fast':
      return fastCalls(model, scratch);
    default:
      return assertNever(schedule);
  }
}
