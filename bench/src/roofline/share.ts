import { assertNever, type Plan, type Step, type WeightFormat } from '@stet/backend';
import { kvBytesPerPosition } from '@stet/model';
import type { Limits } from './machine.js';

/** What a kernel has to do in one run. */
export interface Work {
  readonly bytes: number;
  /** A multiplication and an addition are two. */
  readonly operations: number;
  readonly unit: Unit;
}

export type Unit = 'f32' | 'bf16' | 'int8';

export interface Share {
  readonly gigabytesPerSecond: number;
  readonly gigaOperationsPerSecond: number;
  /** What the machine allows no run to be quicker than: reading the bytes, or computing. */
  readonly bound: 'memory' | Unit;
  /** The least time there is, over the time it took, 0 .. 1. */
  readonly share: number;
}

export function shareOf({ bytes, operations, unit }: Work, seconds: number, limits: Limits): Share {
  const reading = bytes / limits.bytesPerSecond;
  const computing = operations / limits[unit];
  return {
    gigabytesPerSecond: bytes / seconds / 1e9,
    gigaOperationsPerSecond: operations / seconds / 1e9,
    bound: reading >= computing ? 'memory' : unit,
    share: Math.max(reading, computing) / seconds,
  };
}

/** Of a linear with so many weights, for so many rows. Byte formats multiply two planes of the input. */
export function linearWork(
  format: WeightFormat,
  schedule: keyof Step,
  weights: { readonly count: number; readonly bytes: number },
  rows: number,
  limits: Limits,
): Work {
  const operations = 2 * weights.count * rows;
  switch (format) {
    case 'bf16':
      // Canonical sums have one order, which no instruction for bf16 keeps.
      return { bytes: weights.bytes, operations, unit: schedule === 'canonical' || limits.bf16 === 0 ? 'f32' : 'bf16' };
    case 'q8':
    case 'q4':
      return { bytes: weights.bytes, operations: 2 * operations, unit: 'int8' };
    default:
      return assertNever(format);
  }
}

/** Byte products of planes: of queries and keys three of four, of weights and values as many. */
const ATTENTION_PRODUCTS = 6;

/**
 * Of all layers, for so many sequences with `rows` rows from position `start` on. K/V are read at least once a sequence; each
 * query head meets each position up to its row's, once for its score and once for its value.
 */
export function attentionWork(
  plan: Plan,
  headCount: number,
  { sequences, rows, start }: { readonly sequences: number; readonly rows: number; readonly start: number },
): Work {
  const pairs = sequences * (rows * start + (rows * (rows + 1)) / 2);
  return {
    bytes: sequences * (start + rows) * kvBytesPerPosition(plan),
    operations: 2 * ATTENTION_PRODUCTS * pairs * headCount * plan.headSize * plan.layerCount,
    unit: 'int8',
  };
}
