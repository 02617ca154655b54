import type { StetError } from '@stet/backend';
import type { SchedulerStats, SequenceStats } from '@stet/scheduler';

export type { SequenceStats } from '@stet/scheduler';

/** What `engine.generate` takes. Exactly one of `prompt`, `promptTokens` and `messages`. */
export interface GenerateRequest {
  readonly prompt?: string;
  readonly promptTokens?: readonly number[];
  readonly messages?: readonly ChatMessage[];
  /** Most output tokens; by default what is left of the context, at most 256. */
  readonly maxTokens?: number;
  /** Same tokens and log-probabilities, bit for bit, whatever shares the batch. */
  readonly deterministic?: boolean;
  /** 0 .. 2^53 - 1; drawn, and returned in `accepted`, when absent. */
  readonly seed?: number;
  /** 0 is greedy; 0 by default for deterministic and ordinary requests alike. */
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  /** Against tokens of the prompt and the output, 0.1 .. 10; 1, the default, is off. */
  readonly repetitionPenalty?: number;
  /** Token id (as a string key) to a number added to its logit. */
  readonly logitBias?: Readonly<Record<string, number>>;
  /**
   * Up to 8 strings of 1 to 256 characters. The text ends before the one that is complete first; the token that
   * completes it is the last id, so that ids, log-probabilities and text end at the same token.
   */
  readonly stop?: string | readonly string[];
  /** The chosen token's log-probability and those of the n likeliest, 0 .. 20. */
  readonly logprobs?: number;
  /** The same of the prompt's tokens but the first, 0 .. 20; its rows then do not come from the prefix cache. */
  readonly promptLogprobs?: number;
  /** Also emit candidates before they are verified. */
  readonly provisional?: boolean;
  /** Higher is served first, -100 .. 100, 0 by default. */
  readonly priority?: number;
  /** Do not end at the model's end-of-text token. */
  readonly ignoreEos?: boolean;
}

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** The parameters that will really be used, defaults filled in. */
export interface ResolvedParams {
  readonly maxTokens: number;
  readonly deterministic: boolean;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  readonly logitBias: Readonly<Record<string, number>>;
  readonly stop: readonly string[];
  readonly logprobs?: number;
  readonly promptLogprobs?: number;
  readonly provisional: boolean;
  readonly priority: number;
  readonly ignoreEos: boolean;
}

export interface TokenLogprobText {
  readonly token: number;
  readonly text: string;
  readonly logprob: number;
  readonly top: readonly { readonly token: number; readonly text: string; readonly logprob: number }[];
}

/** Events of one request, in order: accepted, then commits (and provisionals, rollbacks), then done. Errors are thrown. */
export type GenerateEvent =
  | {
      readonly type: 'accepted';
      readonly fingerprint: string;
      readonly seed: number;
      readonly promptTokens: number;
      readonly params: ResolvedParams;
    }
  /** Output tokens `from`, … are final; `text` is what became whole with them. `hash` is that of all committed tokens, see `HashChain`. */
  | {
      readonly type: 'commit';
      readonly from: number;
      readonly tokens: readonly number[];
      readonly text: string;
      readonly logprobs?: readonly TokenLogprobText[];
      /** With the first commit, of the prompt's tokens 1, 2, …, if asked for. */
      readonly promptLogprobs?: readonly TokenLogprobText[];
      readonly hash: string;
    }
  | { readonly type: 'provisional'; readonly from: number; readonly tokens: readonly number[]; readonly text: string }
  | { readonly type: 'rollback'; readonly to: number }
  | {
      readonly type: 'done';
      readonly finishReason: 'stop' | 'length';
      readonly usage: Usage;
      readonly stats: GenerateStats;
      readonly receipt?: Receipt;
    };

/** Bounds one read of a stream, as the argument of `next`. */
export interface ReadLimit {
  /** Most output tokens of a commit, from 1. The rest waits for the next read, with the text and hash that are its own. */
  readonly maxTokens: number;
}

export type GenerateEvents = AsyncIterableIterator<GenerateEvent, undefined, ReadLimit | undefined>;

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly totalTokens: number;
}

export interface GenerateStats {
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  /** Tokens that a drafter guessed, and those of them that committed. */
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
  readonly cachedTokens: number;
  readonly preemptions: number;
  readonly queueMs: number;
  readonly prefillMs: number;
  readonly decodeMs: number;
}

/**
 * What equal fingerprints promise: `portable`, equal bits on any backend; `same-build`, on this device and build;
 * `seeded`, seeded sampling over kernels whose bits may depend on the batch.
 */
export type GuaranteeLevel = 'seeded' | 'same-build' | 'portable';

/** What a deterministic answer can be checked by: the same request on any backend of this fingerprint gives this hash. */
export interface Receipt {
  readonly fingerprint: string;
  readonly numerics: string;
  readonly level: GuaranteeLevel;
  readonly seed: number;
  readonly promptHash: string;
  readonly outputHash: string;
  readonly outputTokens: number;
}

export interface EngineInfo {
  readonly model: string;
  readonly backend: string;
  readonly device: string;
  readonly fingerprint: string;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Whether the model takes `messages`; without a template it goes on with a `prompt` only. */
  readonly chatTemplate: 'present' | 'none';
  /**
   * What a deterministic answer depends on: `portable`, the model alone; `fixed-shape`, the device and the backend's shape
   * too. `none`: deterministic requests are refused.
   */
  readonly deterministic: 'portable' | 'fixed-shape' | 'none';
  readonly guarantee: GuaranteeLevel;
  /** The numerics of deterministic answers, `none` where the backend names none. */
  readonly numerics: string;
  /** How deterministic requests get their tokens, and what guesses some: names of a policy and a drafter. */
  readonly policy: string;
  readonly drafter?: string;
  readonly memory: { readonly weightBytes: number; readonly kvBytes: number; readonly scratchBytes: number };
}

/** What goes with a request and is no part of it: whoever passes requests on for others decides it. */
export interface GenerateOptions {
  readonly signal?: AbortSignal;
  /**
   * Requests find the K/V of prompts in the prefix cache that others of the same scope computed, and nobody else's, so that
   * the time to a first token tells nothing of theirs. Those without a scope share with each other. Changes no bit.
   */
  readonly cacheScope?: string;
}

export interface Engine {
  /** Of the present backend: after a lost device, `device` and `memory` may be others; nothing else changes. */
  readonly info: EngineInfo;
  /**
   * Streams one request, which begins with the call. The iterator is pulled: commits that are not read are merged, and
   * a sequence whose unread tokens reach a limit is paused until they are read. Leaving the loop or aborting `signal`
   * cancels the request and frees its blocks; a request that has ended can still be read. `next` takes a
   * {@link ReadLimit}: wherever commits are cut, their texts joined are the same. Errors are thrown by the
   * iterator, never by the call: a refusal by the first read, a failure after what was committed before it. They are
   * `StetError`s: BAD_REQUEST, CONTEXT_LENGTH, QUEUE_FULL, KV_CAPACITY, ABORTED, DEVICE_LOST,
   * ENGINE_CLOSED, ….
   */
  generate(request: GenerateRequest, options?: GenerateOptions): GenerateEvents;
  /** Running totals, for benchmarks and monitoring. */
  stats(): EngineStats;
  /** Aborts what runs and frees everything. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The scheduler's totals, and the K/V blocks. */
export interface EngineStats extends Omit<SchedulerStats, 'kv'> {
  /** Times that a backend made anew took the place of one whose device was lost. */
  readonly recreations: number;
  readonly blocks: Pick<SchedulerStats['kv'], 'free' | 'cached' | 'held' | 'total'>;
}

/** Whether requests can run. `recreating`: they wait while a backend is made in place of a lost one; `gone`: none is taken any more. */
export type EngineHealth =
  | { readonly state: 'ready' }
  | { readonly state: 'recreating' }
  | { readonly state: 'gone'; readonly error: StetError };

/** An engine that can be watched, as those of `createEngine` can. */
export interface ObservableEngine {
  readonly health: EngineHealth;
  /** Tells `observer` what happens from now on, until the function that is returned is called. */
  observe(observer: EngineObserver): () => void;
}

/** Called as things happen, a few times for each step: it must be quick and must not throw. */
export interface EngineObserver {
  onStep(step: StepSample): void;
  onCommit(commit: CommitSample): void;
  /** A request that was taken has ended. */
  onEnd(end: EndSample): void;
  /** A request was not taken. */
  onRefused(error: StetError): void;
}

export interface StepSample {
  readonly elapsedMs: number;
  readonly fastRows: number;
  readonly canonicalRows: number;
}

export interface CommitSample {
  readonly deterministic: boolean;
  readonly tokenCount: number;
  /** Since the commit before, or since the request came if it is the first. */
  readonly elapsedMs: number;
  readonly isFirst: boolean;
}

export interface EndSample {
  readonly deterministic: boolean;
  readonly outcome: 'stop' | 'length' | 'aborted' | 'error';
  /** Absent where the scheduler cannot be asked any more. */
  readonly stats?: SequenceStats;
}
