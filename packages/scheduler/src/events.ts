import type { StetError } from '@stet/backend';
import type { FinishReason, TokenLogprob } from './request.js';

/** What `apply` reports, in order. Commits of a sequence are adjacent: each begins where the last one ended. */
export type SequenceEvent =
  /** Output tokens `from`, `from + 1`, … are final. */
  | {
      readonly kind: 'commit';
      readonly id: string;
      readonly from: number;
      readonly tokens: readonly number[];
      readonly logprobs?: readonly TokenLogprob[];
    }
  /**
   * Log-probabilities of the prompt's tokens `from`, `from + 1`, …, only if asked for: in order from token 1 on, all of
   * them before the first commit.
   */
  | {
      readonly kind: 'promptLogprobs';
      readonly id: string;
      readonly from: number;
      readonly logprobs: readonly TokenLogprob[];
    }
  /** Candidates from output index `from` on, only if asked for. */
  | { readonly kind: 'provisional'; readonly id: string; readonly from: number; readonly tokens: readonly number[] }
  /** Candidates from output index `to` on are withdrawn, only if provisional was asked for. */
  | { readonly kind: 'rollback'; readonly id: string; readonly to: number }
  /** The last event of a sequence; its blocks are free. */
  | {
      readonly kind: 'finish';
      readonly id: string;
      readonly reason: FinishReason;
      readonly error?: StetError;
      readonly stats: SequenceStats;
    };

/** Counters of one sequence. */
export interface SequenceStats {
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Prompt tokens whose K/V came from the prefix cache. */
  readonly cachedTokens: number;
  /** Verify windows run. */
  readonly windows: number;
  /** Windows that ended in a mismatch. */
  readonly rollbacks: number;
  /** Candidates that were thrown away: the mismatching one and those after it. */
  readonly recomputedTokens: number;
  /** Tokens that a drafter guessed, and those of them that committed. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  /** Times the sequence lost its blocks and waited. */
  readonly preemptions: number;
  /** From arrival to the first step, to the first commit, and from there to the end. */
  readonly queueMs: number;
  readonly prefillMs: number;
  readonly decodeMs: number;
}
