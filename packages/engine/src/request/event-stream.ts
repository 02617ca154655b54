import { assert, isStetError, StetError } from '@stet/backend';
import type { GenerateEvent, GenerateEvents, ReadLimit } from '../api.js';
import { PendingEvents } from './pending-events.js';

/** What a stream asks of the request behind it. */
export interface StreamOwner {
  /** The reader fetched something, so fewer tokens are unread. */
  onRead(): void;
  /** The reader left before the end. */
  onCancel(): void;
}

/**
 * The reader's side of one request: an async iterator that is pulled. Events that nobody waits for are merged in
 * {@link PendingEvents}; a failure is thrown once, after the events before it were read; nothing rejects unless
 * somebody asked.
 */
export class EventStream implements GenerateEvents {
  readonly pending = new PendingEvents();
  readonly #owner: StreamOwner;
  readonly #waiters: Waiter[] = [];
  #end: { readonly error?: StetError } | undefined;

  constructor(owner: StreamOwner) {
    this.#owner = owner;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(limit?: ReadLimit): Promise<IteratorResult<GenerateEvent, undefined>> {
    const maxTokens = limit?.maxTokens ?? Number.POSITIVE_INFINITY;
    assert(maxTokens >= 1, `a read takes at least one token, not ${maxTokens}`);
    return new Promise((resolve, reject) => {
      this.#waiters.push({ maxTokens, resolve, reject });
      this.flush();
    });
  }

  /** Leaving the loop: cancels the request and forgets what was not read. */
  return(): Promise<IteratorResult<GenerateEvent, undefined>> {
    const running = this.#end === undefined;
    this.#drop({});
    if (running) this.#owner.onCancel();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** No more events will come; with `error`, it is thrown after those that wait. */
  end(error?: StetError): void {
    this.#end ??= error ? { error } : {};
    this.flush();
  }

  /** Ends with `error` at once; what was not read is forgotten. */
  fail(error: StetError): void {
    if (this.#end === undefined) this.#drop({ error });
  }

  /** Hands pending events to those who wait. */
  flush(): void {
    let read = false;
    for (let waiter = this.#waiters[0]; waiter; waiter = this.#waiters[0]) {
      const event = this.pending.take(waiter.maxTokens);
      if (event) {
        read = true;
        waiter.resolve({ done: false, value: event });
      } else if (this.#end?.error) {
        const { error } = this.#end;
        this.#end = {};
        waiter.reject(error);
      } else if (this.#end) {
        waiter.resolve({ done: true, value: undefined });
      } else {
        break;
      }
      this.#waiters.shift();
    }
    if (read) this.#owner.onRead();
  }

  #drop(end: { readonly error?: StetError }): void {
    while (this.pending.take());
    this.#end = end;
    this.flush();
  }
}

interface Waiter {
  readonly maxTokens: number;
  resolve(result: IteratorResult<GenerateEvent, undefined>): void;
  reject(error: StetError): void;
}

/** Anything thrown, as the error of a request. */
export function toStetError(error: unknown): StetError {
  if (isStetError(error)) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new StetError('STET_ERR_BACKEND_FAILED', message, { cause: error });
}
