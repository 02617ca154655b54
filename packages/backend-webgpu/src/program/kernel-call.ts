import type { Kernel } from '../device/kernel.js';

/**
 * What varies from batch to batch. The calls of the logits op (its norm, linear and arg-max) run once for each slice of the wanted
 * rows, with a `Batch` of their own whose `rowCount` and `outputCount` are both the slice's, and `outputs` that is the slice's.
 */
export interface BatchSize {
  readonly rowCount: number;
  readonly outputCount: number;
  /** One more than the highest position of the rows. */
  readonly positionCount: number;
  /** Rows of one sequence are adjacent. */
  readonly sequenceCount: number;
}

/** Workgroups in x, y and z, each at most 65535; a 0 among them skips the call. */
export type Workgroups = readonly [number, number, number];

/**
 * One dispatch of a kernel in a program. `batch`, `params`, and of the kernel's bindings those named `rows`, `tables` and
 * `outputs` come from the program; `buffers` are all others.
 */
export interface KernelCall {
  readonly kernel: Kernel;
  readonly params?: Readonly<Record<string, number>>;
  readonly buffers: Readonly<Record<string, GPUBuffer>>;
  readonly workgroups: (size: BatchSize) => Workgroups;
}

/** Most workgroups of one dimension that every device takes. */
export const MAX_WORKGROUPS = 65535;

/** `count` workgroups in x and, where they are too many, y. The kernel's index is x + y·65535. */
export function spread(count: number): Workgroups {
  return count <= MAX_WORKGROUPS ? [count, 1, 1] : [MAX_WORKGROUPS, Math.ceil(count / MAX_WORKGROUPS), 1];
}

/** `count` workgroups in x for every row. The kernel's row is y + z·65535. */
export function acrossRows(count: number, rowCount: number): Workgroups {
  return [count, Math.min(rowCount, MAX_WORKGROUPS), Math.ceil(rowCount / MAX_WORKGROUPS)];
}
