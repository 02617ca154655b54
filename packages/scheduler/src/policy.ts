import { assert } from '@stet/backend';

/** What a policy may look at: integers and times of one deterministic sequence that has finished its prefill. */
export interface CandidateView {
  /** Candidates that wait for verification. */
  readonly candidateCount: number;
  /** The last candidate would end the output. */
  readonly finishing: boolean;
  /** How long the oldest candidate has waited; 0 without candidates. */
  readonly heldMs: number;
}

/**
 * Decides, step by step, how a deterministic sequence goes on. Row invariance makes every choice free of consequence
 * for the bits: a policy is about speed and smoothness alone, and may be changed in the middle of a sequence.
 */
export interface VerifyPolicy {
  readonly name: string;
  /** `decode`: one more candidate from the fast batch; `verify`: its candidates (none: one direct row) run in the canonical batch. */
  decide(view: CandidateView): 'decode' | 'verify';
}

export interface DvrOptions {
  /** Candidates that make a window due, 16 by default. */
  readonly windowTokens?: number;
  /** A candidate waits no longer than this before its window is due, 100 ms by default. */
  readonly maxHoldMs?: number;
}

/** Decode, verify, roll back: candidates from the fast batch, verified in windows. */
export function dvr(options: DvrOptions = {}): VerifyPolicy {
  const { windowTokens = 16, maxHoldMs = 100 } = options;
  assert(
    Number.isInteger(windowTokens) && windowTokens >= 1,
    `windowTokens is ${windowTokens}, expected a positive integer`,
  );
  return {
    name: `dvr(${windowTokens})`,
    decide: ({ candidateCount, finishing, heldMs }) => {
      if (candidateCount === 0) return 'decode';
      return finishing || candidateCount >= windowTokens || heldMs >= maxHoldMs ? 'verify' : 'decode';
    },
  };
}

/** Every token of a deterministic sequence is decoded in the canonical batch; there is nothing to verify. */
export function direct(): VerifyPolicy {
  return { name: 'direct', decide: () => 'verify' };
}
