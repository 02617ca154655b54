import type { DrawParams } from '@stet/backend';

export type { TokenLogprob } from '@stet/backend';

/** What a caller asks for, in token ids: the scheduler knows no text. */
export interface SequenceRequest {
  readonly id: string;
  /** `deterministic`: committed tokens and log-probabilities come from the canonical schedule alone. */
  readonly kind: 'deterministic' | 'ordinary';
  /** At least one id. */
  readonly promptTokens: Int32Array;
  /** Most output tokens, at least 1. */
  readonly maxTokens: number;
  readonly sampling: SamplingParams;
  /** 0 .. 2^53 - 1; all noise is keyed by it, the output index and the token id. */
  readonly seed: number;
  /** Ids that end the output (they commit as its last token). */
  readonly stopTokens: ReadonlySet<number>;
  /** Ends the output by what its tokens spell; made by the engine, which knows text. */
  readonly stop?: StopMatcher;
  /** Absent: no log-probabilities; n: the chosen token's and those of the n likeliest, 0 .. 20. */
  readonly topLogprobs?: number;
  /** Absent: none; n: the log-probabilities of the prompt's tokens but the first, and those of the n likeliest, 0 .. 20. */
  readonly promptLogprobs?: number;
  /** Served as if it had come `priority` × 10 s earlier: higher goes first, and nobody waits for ever. */
  readonly priority: number;
  /** Share the prompt's K/V with requests of this scope alone; those without one share with each other. Changes no bit. */
  readonly cacheScope?: string;
  /** Admit it only once this sequence has finished its prefill, ended or paused, so that it finds its prompt's blocks in the cache. */
  readonly after?: string;
  /** Emit `provisional` and `rollback` events for candidates. */
  readonly provisional: boolean;
}

/** Sampling parameters, all of them present: defaults are the engine's matter. */
export interface SamplingParams extends DrawParams {
  /** Subtracted from a token's logit once for each time it stands in the output. */
  readonly frequencyPenalty: number;
  /** Subtracted from a token's logit if it stands in the output. */
  readonly presencePenalty: number;
  /** Divides the positive and multiplies the negative logits of tokens that stand in prompt or output; 1 is off. */
  readonly repetitionPenalty: number;
  /** Added to the logits of single tokens. */
  readonly logitBias: ReadonlyMap<number, number>;
}

export const GREEDY: SamplingParams = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  logitBias: new Map(),
};

/** What a row's penalties look at: its own tokens so far. */
export interface TokenHistory {
  /** Tokens of the prompt; one may come more than once. */
  readonly prompt: Iterable<number>;
  /** Output token → how often it stands there. */
  readonly output: ReadonlyMap<number, number>;
}

/**
 * A stop condition over the output as an immutable state per token, so that a rollback is taking an older state.
 * `next` is pure; `matched` says that the output is complete with the token that led to this state.
 */
export interface StopMatcher<State = unknown> {
  readonly initial: State;
  next(state: State, token: number): State;
  matched(state: State): boolean;
}

export type FinishReason = 'stop' | 'length' | 'aborted' | 'error';
