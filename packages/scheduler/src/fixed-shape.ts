import type { CanonicalShape } from '@stet/backend';
import type { RowRange } from './batch-builder.js';
import type { Sequence } from './sequence.js';
import { wanted, windowRows } from './window.js';

/**
 * The canonical batch of a backend whose kernels repeat themselves in one shape alone: every pass has the same number
 * of windows, every window the same number of rows, and begins at an absolute multiple of that number. What a position
 * gets is then a function of the tokens up to it, whenever and however often its window is run: prompts, verification
 * and the way back after a preemption go through the same windows.
 */
export function fixedWindows(
  verifying: readonly Sequence[],
  prefilling: readonly Sequence[],
  shape: CanonicalShape,
  stepNumber: number,
): { sequence: Sequence; range: RowRange }[] {
  const prompts = prefilling.filter((sequence) => sequence.kind === 'deterministic');
  // Of a single place, prompts and verification have every other step's.
  const promptPlaces = Math.min(prompts.length, Math.max(shape.sequenceCount >> 1, stepNumber % 2));
  const chosen = verifying.slice(0, shape.sequenceCount - promptPlaces);
  chosen.push(...prompts.slice(0, shape.sequenceCount - chosen.length));
  return chosen.map((sequence) => ({ sequence, range: fixedRange(sequence, shape.windowTokens) }));
}

/** Real rows of the window that holds the first position without canonical K/V. */
function fixedRange(sequence: Sequence, windowTokens: number): RowRange {
  const isPrompt = sequence.phase === 'prefill';
  const first = isPrompt ? sequence.canonicalCount : sequence.settledCount - 1;
  const end = isPrompt ? sequence.settledCount : first + windowRows(sequence);
  const start = alignDown(first, windowTokens);
  return {
    start,
    rowCount: Math.min(end - start, windowTokens),
    outputFrom: sequence.outputFrom,
    wants: wanted(sequence, 'canonical'),
  };
}

export function alignDown(positions: number, windowTokens: number): number {
  return Math.floor(positions / windowTokens) * windowTokens;
}

export function alignUp(positions: number, windowTokens: number): number {
  return Math.ceil(positions / windowTokens) * windowTokens;
}
