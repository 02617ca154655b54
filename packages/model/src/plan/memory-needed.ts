import { assertNever, type Plan, paddedHeadSize, type WeightFormat } from '@stet/backend';

export interface MemoryNeeded {
  /** Of the arrays of all weights, before what a backend pads or adds. */
  readonly weightBytes: number;
  readonly kvBytesPerPosition: number;
}

/** Bytes that a model takes as the plan says, or with all its matrices in one format, whatever the plan's own are. */
export function memoryNeeded(plan: Plan, format?: WeightFormat): MemoryNeeded {
  let weightBytes = 0;
  for (const spec of plan.weights) {
    weightBytes += spec.kind === 'vector' ? 4 * spec.size : spec.rows * rowBytes(spec.columns, format ?? spec.format);
  }
  return { weightBytes, kvBytesPerPosition: kvBytesPerPosition(plan) };
}

/** Canonical K/V of one position: per 32 elements two int8 planes and an exponent, for keys and values of every layer. */
export function kvBytesPerPosition(plan: Plan): number {
  const padded = paddedHeadSize(plan.headSize);
  return plan.layerCount * plan.kvHeadCount * 2 * (2 * padded + padded / 32);
}

function rowBytes(columns: number, format: WeightFormat): number {
  switch (format) {
    case 'bf16':
      return 2 * columns;
    case 'q8':
      // Per block of 32 an int8 for each element and a scale in f32.
      return Math.ceil(columns / 32) * 36;
    case 'q4':
      // Per block of 32 four bits for each element, and scale and minimum in bf16.
      return Math.ceil(columns / 32) * 20;
    default:
      return assertNever(format);
  }
}
