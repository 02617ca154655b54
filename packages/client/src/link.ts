import { abortable, sleep } from './abortable.js';
import type { Connection, Loss } from './connection.js';
import { type ReconnectPolicy, retryDelayMs } from './reconnect-policy.js';
import { StreamError } from './stream-error.js';

/** `attempt` counts from 1, since a connection last worked. */
export type ConnectionState =
  | { readonly kind: 'connecting'; readonly attempt: number }
  | { readonly kind: 'open' }
  /** The next attempt follows in `delayMs`. */
  | { readonly kind: 'waiting'; readonly attempt: number; readonly delayMs: number; readonly error: StreamError }
  /** Nobody needs a connection, or it was given up; the next request makes one. */
  | { readonly kind: 'offline'; readonly error?: StreamError }
  | { readonly kind: 'closed' };

/** A connection in the making, for all that wait for it. */
interface Opening {
  readonly connection: Promise<Connection>;
  readonly abort: AbortController;
  waiterCount: number;
}

export interface LinkOptions {
  /** Makes one attempt. Rejects with a `StreamError`, or with the reason of `signal`. */
  dial(signal: AbortSignal): Promise<Connection>;
  readonly policy: ReconnectPolicy;
  onState(state: ConnectionState): void;
}

/** The way to the server: one connection at a time, made anew when it is lost, as long as somebody waits for it. */
export class Link {
  readonly #live = new Set<Connection>();
  #state: ConnectionState = { kind: 'offline' };
  #current: Connection | undefined;
  #opening: Opening | undefined;
  #attempts = 0;
  /** No attempt is made before; in milliseconds of `performance.now()`. */
  #retryAt = 0;
  #lastError: StreamError | undefined;

  constructor(private readonly options: LinkOptions) {}

  get state(): ConnectionState {
    return this.#state;
  }

  /**
   * The open connection, or the next. Rejects with the reason of `signal`, and with a `StreamError` when the attempts are
   * used up, when an attempt shows that another would not help, or when the link is closed.
   */
  async connection(signal: AbortSignal, maxAttempts = this.options.policy.maxAttempts): Promise<Connection> {
    if (this.#state.kind === 'closed') throw closedError();
    signal.throwIfAborted();
    if (this.#current?.isOpen) return this.#current;
    // One that is about to close may still bring what is under way to its streams.
    this.#current = undefined;
    this.#opening ??= this.#open(maxAttempts);
    const opening = this.#opening;
    opening.waiterCount++;
    try {
      return await abortable(opening.connection, signal);
    } finally {
      opening.waiterCount--;
      if (opening.waiterCount === 0) this.#abandon(opening);
    }
  }

  /** The server takes nothing new on this connection: the next request makes another. What streams on it may end there. */
  retire(connection: Connection, error: StreamError): void {
    if (this.#current === connection) this.#drop(connection, error);
  }

  /** Closes what is open and makes nothing new. Resolves when the server has answered, or after `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    this.#set({ kind: 'closed' });
    if (this.#opening !== undefined) this.#abandon(this.#opening);
    for (const connection of this.#live) connection.close();
    const timeout = new AbortController();
    const closed = Promise.all([...this.#live].map((connection) => connection.closed));
    await Promise.race([closed, sleep(timeoutMs, timeout.signal).catch(() => {})]);
    timeout.abort();
  }

  #open(maxAttempts: number): Opening {
    const abort = new AbortController();
    const opening = { connection: this.#dialUntilOpen(maxAttempts, abort.signal), abort, waiterCount: 0 };
    opening.connection.then(
      () => this.#settle(opening, { kind: 'open' }),
      (error: unknown) => this.#settle(opening, { kind: 'offline', ...(error instanceof StreamError && { error }) }),
    );
    return opening;
  }

  /** Nobody waits any more. */
  #abandon(opening: Opening): void {
    opening.abort.abort(closedError());
    this.#settle(opening, { kind: 'offline' });
  }

  #settle(opening: Opening, state: ConnectionState): void {
    if (this.#opening !== opening) return;
    this.#opening = undefined;
    if (state.kind !== 'open') this.#set(state);
  }

  async #dialUntilOpen(maxAttempts: number, signal: AbortSignal): Promise<Connection> {
    for (;;) {
      await this.#pause(signal);
      this.#attempts++;
      this.#set({ kind: 'connecting', attempt: this.#attempts });
      try {
        const connection = await this.options.dial(signal);
        this.#adopt(connection);
        return connection;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof StreamError)) throw error;
        this.#lastError = error;
        const isLast = !error.retryable || this.#attempts >= maxAttempts;
        if (isLast) this.#attempts = 0;
        this.#scheduleRetry();
        if (isLast) throw error;
      }
    }
  }

  async #pause(signal: AbortSignal): Promise<void> {
    const delayMs = this.#retryAt - performance.now();
    if (delayMs <= 0) return;
    const error = this.#lastError!;
    this.#set({ kind: 'waiting', attempt: this.#attempts + 1, delayMs: Math.ceil(delayMs), error });
    await sleep(delayMs, signal);
  }

  #adopt(connection: Connection): void {
    this.#current = connection;
    this.#live.add(connection);
    void connection.closed.then(() => this.#live.delete(connection));
    connection.whenLost((loss) => this.#onLost(connection, loss));
    if (this.#state.kind === 'closed') connection.close();
    else if (connection.isOpen) this.#set({ kind: 'open' });
  }

  #onLost(connection: Connection, { error }: Loss): void {
    if (this.#current === connection) this.#drop(connection, error);
  }

  #drop(connection: Connection, error: StreamError): void {
    this.#current = undefined;
    this.#lastError = error;
    // One that opened and said nothing is one more failure.
    if (connection.wasHeard) this.#attempts = 0;
    this.#scheduleRetry();
    this.#set({ kind: 'offline', error });
  }

  #scheduleRetry(): void {
    this.#retryAt = performance.now() + retryDelayMs(this.options.policy, this.#attempts + 1);
  }

  #set(state: ConnectionState): void {
    if (this.#state.kind === 'closed') return;
    this.#state = state;
    this.options.onState(state);
  }
}

export function closedError(): StreamError {
  return new StreamError('STET_ERR_CONNECTION', 'the client was closed', { retryable: false });
}
