import type { CommitFrame, ProvisionalFrame, StreamFrame } from '@stet/server/protocol';
import { aborted, type StreamError } from './stream-error.js';

type WithoutStreamFields<T> = T extends unknown ? Omit<T, 'id' | 'seq'> : never;

/** The events of `Engine.generate`, and in `accepted` also the stream's name on the server and its warnings. */
export type ClientEvent = WithoutStreamFields<StreamFrame>;

type Mutable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] | undefined ? E[] : T[K] };
type TokenEvent = Mutable<WithoutStreamFields<CommitFrame>> | Mutable<WithoutStreamFields<ProvisionalFrame>>;

export interface StreamHooks {
  /** The reader takes a commit. */
  onRead(tokenCount: number): void;
  /** The stream is over, for whatever reason; called once. */
  onEnd(): void;
}

/**
 * One request as an iterator of events. What is not read yet is merged: adjacent commits become one, so an idle reader
 * holds at most the tokens of its own request and slows no other stream.
 */
export class ClientStream implements AsyncIterableIterator<ClientEvent> {
  readonly #unread: ClientEvent[] = [];
  #state: 'open' | 'ended' = 'open';
  #error: StreamError | undefined;
  #wake = () => {};
  #news: Promise<void> | undefined;

  constructor(private readonly hooks: StreamHooks) {}

  get state(): 'open' | 'ended' {
    return this.#state;
  }

  push(event: ClientEvent): void {
    if (this.#state !== 'open') return;
    const last = this.#unread.at(-1);
    if (last !== undefined && last.type === event.type && (event.type === 'commit' || event.type === 'provisional'))
      append(last as TokenEvent, event);
    else this.#unread.push(event);
    if (event.type === 'done') this.#end();
    this.#notify();
  }

  /** Ends the stream: the reader gets what is unread, and then the error. */
  fail(error: StreamError): void {
    if (this.#state !== 'open') return;
    this.#error = error;
    this.#end();
    this.#notify();
  }

  /** Ends the stream: the reader gets the error at once. */
  cancel(error: StreamError): void {
    if (this.#state !== 'open') return;
    this.#unread.length = 0;
    this.fail(error);
  }

  async next(): Promise<IteratorResult<ClientEvent, undefined>> {
    for (;;) {
      const event = this.#unread.shift();
      if (event !== undefined) {
        if (event.type === 'commit') this.hooks.onRead(event.tokens.length);
        return { done: false, value: event };
      }
      if (this.#error !== undefined) throw this.#takeError();
      if (this.#state === 'ended') return { done: true, value: undefined };
      this.#news ??= new Promise((resolve) => {
        this.#wake = resolve;
      });
      await this.#news;
    }
  }

  async return(): Promise<IteratorResult<ClientEvent, undefined>> {
    this.cancel(aborted());
    this.#unread.length = 0;
    this.#error = undefined;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** An error is thrown once; after it the iteration is over. */
  #takeError(): StreamError {
    const error = this.#error!;
    this.#error = undefined;
    return error;
  }

  #end(): void {
    this.#state = 'ended';
    this.hooks.onEnd();
  }

  #notify(): void {
    this.#news = undefined;
    this.#wake();
  }
}

/** In place: nobody has seen `first` yet, and copying would take quadratic time. */
function append(first: TokenEvent, second: ClientEvent & { type: 'commit' | 'provisional' }): void {
  for (const token of second.tokens) first.tokens.push(token);
  first.text += second.text;
  if (first.type !== 'commit' || second.type !== 'commit') return;
  first.hash = second.hash;
  for (const logprob of second.logprobs ?? []) first.logprobs?.push(logprob);
}
