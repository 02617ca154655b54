import { logSoftmax } from '../divergence.js';
import type { GoldenCase, GoldenCheck } from './golden.js';

/** How the logits of a forward compare with the recorded ones. */
export interface Agreement {
  /** Over all recorded values of all cases. */
  readonly largestDifference: number;
  /** Greedy ids that agree before the first of their case that does not. */
  readonly agreeing: number;
  /** All recorded ids. */
  readonly total: number;
  /** The first disagreement of each case that has one. */
  readonly disagreements: readonly Disagreement[];
}

export interface Disagreement {
  readonly step: number;
  /** Between the first and the second token, recorded. */
  readonly gap: number;
  /** `explained`: two logits that are off by the largest difference can change places over such a gap. */
  readonly cause: 'explained' | 'unexplained';
}

/** `rows`: by case, logits of every position from 0: (tokenCount × vocabSize). */
export function agreement(cases: readonly GoldenCase[], rows: readonly Float32Array[], vocabSize: number): Agreement {
  const largestDifference = cases.reduce(
    (most, { checks }, index) =>
      checks.reduce((so, check) => Math.max(so, difference(check, rows[index]!, vocabSize)), most),
    0,
  );
  let agreeing = 0;
  const disagreements: Disagreement[] = [];
  for (const [index, { promptIds, outputIds, gaps }] of cases.entries()) {
    const first = outputIds.findIndex((id, step) => best(rows[index]!, promptIds.length - 1 + step, vocabSize) !== id);
    agreeing += first === -1 ? outputIds.length : first;
    if (first === -1) continue;
    const gap = gaps[first]!;
    disagreements.push({ step: first, gap, cause: gap <= 2 * largestDifference ? 'explained' : 'unexplained' });
  }
  return {
    largestDifference,
    agreeing,
    total: cases.reduce((sum, one) => sum + one.outputIds.length, 0),
    disagreements,
  };
}

function difference({ position, scale, values }: GoldenCheck, rows: Float32Array, vocabSize: number): number {
  const start = position * vocabSize;
  const got: ArrayLike<number> =
    scale === 'logits' ? rows.subarray(start, start + vocabSize) : logSoftmax(rows, start, vocabSize);
  return values.reduce((most, [id, value]) => Math.max(most, Math.abs(got[id]! - value)), 0);
}

function best(rows: Float32Array, position: number, vocabSize: number): number {
  const start = position * vocabSize;
  let top = 0;
  for (let id = 1; id < vocabSize; id++) if (rows[start + id]! > rows[start + top]!) top = id;
  return top;
}
