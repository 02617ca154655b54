import type { Backend, Step } from '@stet/backend';
import { rowsOf } from '../batches.js';
import type { GoldenCase } from './golden.js';

export const BLOCK_SIZE = 16;
export const MAX_ROWS = 128;

/** Blocks that the longest case needs, block 0 included. */
export function blocksFor(cases: readonly GoldenCase[]): number {
  return 1 + Math.max(...cases.map((one) => Math.ceil(tokensOf(one).length / BLOCK_SIZE)));
}

/** What a model reads when it writes the recorded answer: the prompt and all outputs but the last. */
export function tokensOf({ promptIds, outputIds }: GoldenCase): number[] {
  return [...promptIds, ...outputIds.slice(0, -1)];
}

/**
 * Logits of every position, (tokenCount × vocabSize): the prompt in batches, then the outputs one by one (`decode`), as a
 * server computes them, or in batches as well (`batch`).
 */
export async function forwardCase(
  backend: Backend,
  schedule: keyof Step,
  golden: GoldenCase,
  outputs: 'decode' | 'batch',
): Promise<Float32Array> {
  const tokens = tokensOf(golden);
  const { vocabSize } = backend.info;
  const logits = new Float32Array(tokens.length * vocabSize);
  for (let start = 0; start < tokens.length; ) {
    const isDecoding = outputs === 'decode' && start >= golden.promptIds.length;
    const end = isDecoding || outputs === 'batch' ? tokens.length : golden.promptIds.length;
    const rowCount = isDecoding ? 1 : Math.min(MAX_ROWS, end - start);
    const result = await backend.forward({ [schedule]: rowsOf(tokens, start, rowCount, 1, BLOCK_SIZE) });
    logits.set(result[schedule]!.logits, start * vocabSize);
    start += rowCount;
  }
  return logits;
}
