import type { Batch, Plan } from '@stet/backend';
import { buildModel, type ConformanceModel } from '@stet/backend/conformance';

/** A model that takes a while: 3.2 million weights. */
export function largeModel(): ConformanceModel {
  return buildModel({
    name: 'large',
    seed: 5,
    vocabSize: 1024,
    contextLength: 512,
    layerCount: 4,
    hiddenSize: 256,
    headCount: 4,
    kvHeadCount: 2,
    headSize: 64,
    feedForwardSize: 704,
    hasBiases: false,
    head: 'tied',
    attentionFormat: 'bf16',
    feedForwardFormat: 'bf16',
    headFormat: 'bf16',
  });
}

export const largeSizes = { blockSize: 16, blockCount: 65, maxRows: 512 } as const;

/** The large model's plan with a window in every layer; the weights are the same. */
export function withWindow(plan: Plan, windowSize: number): Plan {
  return { ...plan, ops: plan.ops.map((op) => (op.kind === 'attention' ? { ...op, windowSize } : op)) };
}

/** A prompt in blocks first, first + 1, … that wants its last arg-max. */
export function promptBatch(rowCount: number, first = 1): Batch {
  const blocks = Int32Array.from({ length: Math.ceil(rowCount / largeSizes.blockSize) }, (_, i) => first + i);
  return {
    tokens: Int32Array.from({ length: rowCount }, (_, row) => (row * 37) % 1024),
    positions: Int32Array.from({ length: rowCount }, (_, row) => row),
    rowStarts: Int32Array.of(0, rowCount),
    blockStarts: Int32Array.of(0),
    blocks,
    outputRows: Int32Array.of(rowCount - 1),
    outputKinds: Uint8Array.of(1),
  };
}
