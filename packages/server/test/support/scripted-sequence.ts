import { StetError } from '@stet/backend';
import {
  type GenerateEvent,
  type GenerateEvents,
  HashChain,
  type ReadLimit,
  type Receipt,
  type ResolvedParams,
  type TokenLogprobText,
} from '@stet/engine';

export interface ScriptedSequenceOptions {
  readonly prompt: readonly number[];
  readonly params: ResolvedParams;
  readonly seed: number;
  readonly fingerprint: string;
  readonly maxUnreadTokens: number;
  readonly windowTokens: number;
  readonly textOf: (token: number) => string;
  readonly failure: { readonly afterTokens: number; readonly error: unknown } | undefined;
  onEnd(): void;
  onRead(): void;
}

type CommitEvent = Extract<GenerateEvent, { type: 'commit' }>;

/** The output token at `index`: a function of prompt, seed and index alone. */
export function scriptedToken(prompt: readonly number[], seed: number, index: number): number {
  let state = (seed + 17 * index) >>> 0;
  for (const token of prompt) state = (Math.imul(state, 31) + token) >>> 0;
  return state % 1000;
}

/** One request of a {@link ScriptedEngine}, as its own iterator of events. */
export class ScriptedSequence implements GenerateEvents {
  #unread: GenerateEvent[] = [];
  #unreadTokens = 0;
  #candidates: number[] = [];
  #committed = 0;
  readonly #chain = new HashChain();
  /** After each committed token. */
  readonly #hashes: string[] = [];
  #error: unknown;
  #state: 'running' | 'finished' | 'failed' = 'running';
  #waiting: PromiseWithResolversLike | undefined;

  constructor(private readonly options: ScriptedSequenceOptions) {
    const { fingerprint, seed, prompt, params } = options;
    this.#unread.push({ type: 'accepted', fingerprint, seed, promptTokens: prompt.length, params });
  }

  get paused(): boolean {
    return this.#unreadTokens >= this.options.maxUnreadTokens;
  }

  /** Computes one token. Every third window of a deterministic sequence first shows a wrong candidate. */
  step(): void {
    const { params, failure, windowTokens } = this.options;
    const index = this.#committed + this.#candidates.length;
    if (failure !== undefined && index >= failure.afterTokens) {
      this.#fail(failure.error);
      return;
    }
    const token = scriptedToken(this.options.prompt, this.options.seed, index);
    this.#candidates.push(token);
    const isLast = index + 1 === params.maxTokens;
    if (params.provisional) this.#showCandidate(index, token);
    if (!params.deterministic || this.#candidates.length === windowTokens || isLast) this.#commit();
    if (isLast) this.#finish();
    this.#wake();
  }

  abort(): void {
    if (this.#state !== 'running') return;
    this.#unread = [];
    this.#fail(new StetError('STET_ERR_ABORTED', 'the request was aborted'));
  }

  async next(limit?: ReadLimit): Promise<IteratorResult<GenerateEvent, undefined>> {
    for (;;) {
      const event = this.#shift(limit?.maxTokens ?? Number.POSITIVE_INFINITY);
      if (event !== undefined) {
        this.#unreadTokens -= event.type === 'commit' ? event.tokens.length : 0;
        this.options.onRead();
        return { done: false, value: event };
      }
      if (this.#error !== undefined) throw this.#takeError();
      if (this.#state !== 'running') return { done: true, value: undefined };
      this.#waiting ??= withResolvers();
      await this.#waiting.promise;
    }
  }

  async return(): Promise<IteratorResult<GenerateEvent, undefined>> {
    this.abort();
    this.#error = undefined;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next event; what a commit has beyond `maxTokens` stays. */
  #shift(maxTokens: number): GenerateEvent | undefined {
    const event = this.#unread.shift();
    if (event?.type !== 'commit' || event.tokens.length <= maxTokens) return event;
    const cut = event.from + maxTokens;
    this.#unread.unshift(this.#commitOf(cut, event.tokens.slice(maxTokens)));
    return this.#commitOf(event.from, event.tokens.slice(0, maxTokens));
  }

  #commitOf(from: number, tokens: readonly number[]): CommitEvent {
    return {
      type: 'commit',
      from,
      tokens,
      text: tokens.map(this.options.textOf).join(''),
      hash: this.#hashes[from + tokens.length - 1]!,
      ...(this.options.params.logprobs !== undefined && { logprobs: tokens.map((token) => this.#logprob(token)) }),
    };
  }

  #showCandidate(index: number, token: number): void {
    if (index % 12 === 0 && this.options.params.deterministic) {
      this.#unread.push({
        type: 'provisional',
        from: index,
        tokens: [token + 1],
        text: this.options.textOf(token + 1),
      });
      this.#unread.push({ type: 'rollback', to: index });
    }
    this.#unread.push({ type: 'provisional', from: index, tokens: [token], text: this.options.textOf(token) });
  }

  #commit(): void {
    const tokens = this.#candidates;
    for (const token of tokens) {
      this.#chain.push(token);
      this.#hashes.push(this.#chain.hex);
    }
    const commit = this.#commitOf(this.#committed, tokens);
    this.#committed += tokens.length;
    this.#unreadTokens += tokens.length;
    this.#candidates = [];
    const last = this.#unread.at(-1);
    if (last?.type === 'commit') this.#unread[this.#unread.length - 1] = merge(last, commit);
    else this.#unread.push(commit);
  }

  #logprob(token: number): TokenLogprobText {
    const chosen = { token, text: this.options.textOf(token), logprob: -0.25 };
    return { ...chosen, top: [chosen] };
  }

  #finish(): void {
    const { prompt, params } = this.options;
    this.#unread.push({
      type: 'done',
      finishReason: 'length',
      usage: {
        promptTokens: prompt.length,
        completionTokens: params.maxTokens,
        totalTokens: prompt.length + params.maxTokens,
      },
      stats: {
        windows: 0,
        rollbacks: 0,
        recomputedTokens: 0,
        draftedTokens: 0,
        acceptedTokens: 0,
        cachedTokens: 0,
        preemptions: 0,
        queueMs: 0,
        prefillMs: 0,
        decodeMs: 0,
      },
      ...(params.deterministic && { receipt: this.#receipt() }),
    });
    this.#state = 'finished';
    this.options.onEnd();
  }

  #receipt(): Receipt {
    const { fingerprint, seed } = this.options;
    return {
      fingerprint,
      numerics: 'scripted',
      level: 'portable',
      seed,
      promptHash: 'none',
      outputHash: this.#chain.hex,
      outputTokens: this.#committed,
    };
  }

  #fail(error: unknown): void {
    this.#state = 'failed';
    this.#error = error;
    this.options.onEnd();
    this.#wake();
  }

  #takeError(): unknown {
    const error = this.#error;
    this.#error = undefined;
    return error;
  }

  #wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }
}

function merge(first: CommitEvent, second: CommitEvent): CommitEvent {
  return {
    ...first,
    tokens: [...first.tokens, ...second.tokens],
    text: first.text + second.text,
    hash: second.hash,
    ...(first.logprobs && second.logprobs && { logprobs: [...first.logprobs, ...second.logprobs] }),
  };
}

interface PromiseWithResolversLike {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

function withResolvers(): PromiseWithResolversLike {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
