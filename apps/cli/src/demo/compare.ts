import type { TrialResult } from './trial.js';

/** How much the answers to one request differed. */
export interface Comparison {
  readonly runs: number;
  /** Distinct token sequences. */
  readonly distinct: number;
  /** Distinct log-probabilities, bit for bit. */
  readonly distinctLogprobs: number;
  /** Smallest output index at which two answers differ; null where they are all the same. */
  readonly firstDifference: number | null;
}

export function compareAnswers(results: readonly TrialResult[]): Comparison {
  return {
    runs: results.length,
    distinct: new Set(results.map((result) => result.tokens.join(' '))).size,
    distinctLogprobs: new Set(results.map((result) => result.logprobBits)).size,
    firstDifference: firstDifference(results.map((result) => result.tokens)),
  };
}

/** Where any of the sequences leaves the first one, which is where any two of them differ first. */
function firstDifference(sequences: readonly (readonly number[])[]): number | null {
  const [first = [], ...others] = sequences;
  let earliest: number | null = null;
  for (const other of others) {
    const length = Math.max(first.length, other.length);
    for (let i = 0; i < (earliest ?? length); i++) {
      if (first[i] !== other[i]) earliest = i;
    }
  }
  return earliest;
}
