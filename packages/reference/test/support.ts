import type { Batch } from '@stet/backend';
import { OUTPUT_LOGITS } from '@stet/backend';

/** Rows of one sequence of a batch: tokens from `start` on, over the blocks of its table. */
export interface SequencePart {
  readonly tokens: readonly number[];
  readonly start: number;
  readonly blocks: readonly number[];
}

/** A batch that wants the logits of all its rows. */
export function batchOf(parts: readonly SequencePart[]): Batch {
  const rowStarts = [0];
  const blockStarts = [0];
  for (const part of parts) {
    rowStarts.push(rowStarts.at(-1)! + part.tokens.length);
    blockStarts.push(blockStarts.at(-1)! + part.blocks.length);
  }
  const rowCount = rowStarts.at(-1)!;
  return {
    tokens: Int32Array.from(parts.flatMap((part) => part.tokens)),
    positions: Int32Array.from(parts.flatMap((part) => part.tokens.map((_, i) => part.start + i))),
    rowStarts: Int32Array.from(rowStarts),
    blockStarts: Int32Array.from(blockStarts.slice(0, -1)),
    blocks: Int32Array.from(parts.flatMap((part) => part.blocks)),
    outputRows: Int32Array.from({ length: rowCount }, (_, row) => row),
    outputKinds: new Uint8Array(rowCount).fill(OUTPUT_LOGITS),
  };
}

/** Mean Kullback-Leibler divergence, in nats, of rows of logits from those of the truth. */
export function meanDivergence(truth: Float64Array, logits: ArrayLike<number>, vocabSize: number): number {
  let sum = 0;
  const rowCount = truth.length / vocabSize;
  for (let row = 0; row < rowCount; row++) {
    const start = row * vocabSize;
    const p = logSoftmax(Float64Array.from({ length: vocabSize }, (_, i) => truth[start + i]));
    const q = logSoftmax(Float64Array.from({ length: vocabSize }, (_, i) => logits[start + i]));
    for (let i = 0; i < vocabSize; i++) sum += Math.exp(p[i]) * (p[i] - q[i]);
  }
  return sum / rowCount;
}

/** Root of the sum of squared differences over that of the truth. */
export function relativeError(truth: ArrayLike<number>, values: ArrayLike<number>): number {
  let difference = 0;
  let norm = 0;
  for (let i = 0; i < truth.length; i++) {
    difference += (values[i] - truth[i]) ** 2;
    norm += truth[i] ** 2;
  }
  return Math.sqrt(difference / norm);
}

function logSoftmax(logits: Float64Array): Float64Array {
  const max = logits.reduce((a, b) => Math.max(a, b));
  const log = max + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - max), 0));
  return logits.map((x) => x - log);
}
