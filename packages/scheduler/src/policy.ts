import { assert } from '@stet/backend';

/** What a policy may look at: integers and times of one deterministic sequence that has finished its prefill. */
export interface CandidateView {
  /** Candidates that wait for verification. */
  readonly candidateCount: number;
  /** How long the oldest candidate has waited; 0 without candidates. */
  readonly heldMs: number;
  /** Distance of the best two fast logits of the least certain greedy candidate; infinite where none is known. */
  readonly smallestGap: number;
  /** Whether this step's canonical batch has rows already, so that a window would share its pass. */
  readonly canonicalPass: 'none' | 'planned';
}

/** What a policy may look at before it decides about a step's sequences. */
export interface StepView {
  /** Ordinary sequences that decode. */
  readonly ordinaryCount: number;
  /** Deterministic sequences past their prefill. */
  readonly deterministicCount: number;
}

/** What a step took and showed. */
export interface StepOutcome {
  readonly fastRows: number;
  readonly canonicalRows: number;
  /** Rows of prompts among them. */
  readonly prefillRows: number;
  /** Tokens that became final, of both kinds. */
  readonly committedTokens: number;
  /** From this step's plan to the next one's. */
  readonly elapsedMs: number;
  /** Candidates of the fast schedule that were verified up to and with the first mismatch of their window, and those mismatches. */
  readonly verifiedCandidates: number;
  readonly mismatches: number;
}

/**
 * Decides, step by step, how deterministic sequences go on. Row invariance makes every choice free of consequence for
 * the bits: a policy is about speed and smoothness alone, and may be changed in the middle of a sequence. A sequence
 * whose last candidate would end its output is verified without asking.
 */
export interface VerifyPolicy {
  readonly name: string;
  /** Once a step, before the decisions. */
  survey?(view: StepView): void;
  /**
   * `decode`: one more candidate from the fast batch; `verify`: its candidates (none: one direct row) run in the
   * canonical batch. Asked again with `canonicalPass: 'planned'` when others made a pass necessary.
   */
  decide(view: CandidateView): 'decode' | 'verify';
  /** What the step before took, when another follows at once. */
  observe?(outcome: StepOutcome): void;
}

export interface DvrOptions {
  /** Candidates that make a window due, 16 by default. */
  readonly windowTokens?: number;
  /** A candidate waits no longer than this before its window is due, 100 ms by default. */
  readonly maxHoldMs?: number;
  /** A greedy candidate whose best two logits are nearer than this makes its window due; 0, the default, is off. */
  readonly nearTieGap?: number;
}

/** Decode, verify, roll back: candidates from the fast batch, verified in windows of one size. */
export function dvr(options: DvrOptions = {}): VerifyPolicy {
  const { windowTokens = 16, maxHoldMs = 100, nearTieGap = 0 } = options;
  assert(
    Number.isInteger(windowTokens) && windowTokens >= 1,
    `windowTokens is ${windowTokens}, expected a positive integer`,
  );
  return {
    name: `dvr(${windowTokens})`,
    decide: (view) => (windowIsDue(view, windowTokens, maxHoldMs, nearTieGap) ? 'verify' : 'decode'),
  };
}

/** Every token of a deterministic sequence is decoded in the canonical batch; there is nothing to verify. */
export function direct(): VerifyPolicy {
  return { name: 'direct', decide: () => 'verify' };
}

/** The reasons to verify that every policy with windows shares. */
export function windowIsDue(view: CandidateView, windowTokens: number, maxHoldMs: number, nearTieGap: number): boolean {
  if (view.candidateCount === 0) return false;
  return view.candidateCount >= windowTokens || view.heldMs >= maxHoldMs || view.smallestGap < nearTieGap;
}
