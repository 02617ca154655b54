import { StetError } from '@stet/backend';
import { abortable } from './abortable.js';
import { checkDelayMs } from './check-delay.js';
import { type ClientEvent, ClientStream } from './client-stream.js';
import type { OutgoingRequest } from './connection.js';
import { CreditWindow } from './credit-window.js';
import { type Credential, type DialOptions, dial } from './dial.js';
import { type ConnectionState, closedError, Link } from './link.js';
import { type ReconnectOptions, type ReconnectPolicy, resolveReconnect } from './reconnect-policy.js';
import { StreamDriver } from './stream-driver.js';
import { aborted, StreamError } from './stream-error.js';
import { Transcript } from './transcript.js';
import { findWebSocket, streamUrl, type WebSocketConstructor } from './web-socket.js';

export interface ConnectOptions {
  /** A key of the server, sent as a header; not in a page. */
  readonly key?: string;
  /**
   * Gives a ticket of `POST /v1/tickets`, for pages. It is asked before each attempt to connect, because a ticket works
   * once; what it throws makes the attempt a failure.
   */
  readonly ticket?: (options: { readonly signal: AbortSignal }) => Promise<string>;
  /** What is done about a lost connection; `false`: nothing, its streams end. */
  readonly reconnect?: ReconnectOptions | false;
  /** Whether the hash of every commit is computed from its tokens and compared; true by default. */
  readonly verifyHash?: boolean;
  /**
   * Output tokens of a stream that may be under way or unread, from 1 to 1 000 000: a reader that stops then pauses the
   * server. By default as many come as the request asks for.
   */
  readonly creditTokens?: number;
  /** Told of every change of {@link StetClient.state}. */
  readonly onState?: (state: ConnectionState) => void;
  /** Gives up the first attempt to connect. */
  readonly signal?: AbortSignal;
  /** By default the platform's WebSocket, or that of the package `ws`. One that sends a `key` takes options as `ws` does. */
  readonly WebSocket?: WebSocketConstructor;
  /** How long an attempt may take, its ticket included; 10 000 by default. */
  readonly connectTimeoutMs?: number;
  /** How long `close()` waits for the server's answer; 2 000 by default. */
  readonly closeTimeoutMs?: number;
  /** A server that says nothing for so long is pinged, and for twice as long is taken for lost; 15 000 by default. */
  readonly heartbeatMs?: number;
}

export interface RequestOptions {
  readonly signal?: AbortSignal;
}

export interface StetClient {
  readonly state: ConnectionState;
  /**
   * Streams one request, as `Engine.generate` does; many may run at once. It is sent right away. Leaving the loop or
   * aborting `signal` cancels it on the server. When the connection is lost the stream goes on over the next one, with
   * every token once; candidates are withdrawn before. Events that are not read are merged, so a reader may take its
   * time: it holds at most the tokens that its request asks for.
   *
   * Throws a `StreamError`, after what was received: with the server's code; with `STET_ERR_ABORTED`; with
   * `STET_ERR_CONNECTION`, or what the server gave as the reason, when the stream cannot go on; with
   * `STET_ERR_RESUME_MISMATCH` when it would go on otherwise than it began; and with `STET_ERR_BAD_FRAME` when what came
   * breaks the protocol, such as a hash that is not that of the tokens.
   */
  generate(request: OutgoingRequest, options?: RequestOptions): AsyncIterableIterator<ClientEvent>;
  /** The milliseconds a frame takes to the server and back. Rejects with a `StreamError` when the connection is lost. */
  ping(options?: RequestOptions): Promise<number>;
  /** Cancels what runs and closes the connection. May be called twice. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Connects to a server at `ws://host:port`, with one attempt. A connection that is lost is made anew, with growing
 * delays, while streams or requests wait for it, and otherwise with the next request. Rejects with
 * `STET_ERR_CONNECTION` when there is no server, with `STET_ERR_UNAUTHORIZED` when it refuses the key, and with
 * `STET_ERR_UNSUPPORTED` for an address, an option or a runtime that cannot work.
 *
 *     const client = await connect('ws://127.0.0.1:8642');
 *     for await (const event of client.generate({ prompt: 'Once upon a time', deterministic: true }))
 *       if (event.type === 'commit') process.stdout.write(event.text);
 */
export async function connect(address: string | URL, options: ConnectOptions = {}): Promise<StetClient> {
  const credential = credentialOf(options);
  const policy = resolveReconnect(options.reconnect);
  const { connectTimeoutMs = 10_000, closeTimeoutMs = 2_000, heartbeatMs = 15_000 } = options;
  for (const [name, delayMs] of Object.entries({ connectTimeoutMs, closeTimeoutMs, heartbeatMs }))
    checkDelayMs(name, delayMs, 1);
  // Shows at once whether it is in range.
  if (options.creditTokens !== undefined) new CreditWindow(options.creditTokens);
  const url = streamUrl(address);
  const WebSocket = await findWebSocket(options.WebSocket, credential.kind === 'key' ? 'key' : 'other');
  const client = new StreamClient({ url, WebSocket, credential, connectTimeoutMs, heartbeatMs }, policy, options);
  try {
    await client.open(options.signal);
  } catch (error) {
    await client.close();
    throw error;
  }
  return client;
}

class StreamClient implements StetClient {
  readonly #link: Link;
  readonly #running = new Set<ClientStream>();

  constructor(
    target: DialOptions,
    private readonly policy: ReconnectPolicy,
    private readonly options: ConnectOptions,
  ) {
    this.#link = new Link({ dial: (signal) => dial(target, signal), policy, onState: notifier(options.onState) });
  }

  get state(): ConnectionState {
    return this.#link.state;
  }

  async open(signal: AbortSignal | undefined): Promise<void> {
    await withAbort(signal, (own) => this.#link.connection(own, 1));
  }

  generate(request: OutgoingRequest, { signal }: RequestOptions = {}): ClientStream {
    const { verifyHash = true, creditTokens } = this.options;
    const over = new AbortController();
    const onAbort = () => stream.cancel(aborted(signal?.reason));
    const stream: ClientStream = new ClientStream({
      onRead: (tokenCount) => driver.onRead(tokenCount),
      onEnd: () => {
        signal?.removeEventListener('abort', onAbort);
        this.#running.delete(stream);
        over.abort(aborted());
      },
    });
    const driver = new StreamDriver({
      link: this.#link,
      policy: this.policy,
      // As it is now: it may have to be sent again.
      request: JSON.parse(JSON.stringify(request)) as OutgoingRequest,
      transcript: new Transcript(verifyHash ? 'verify' : 'trust'),
      credits: creditTokens === undefined ? undefined : new CreditWindow(creditTokens),
      reader: stream,
    });
    if (this.state.kind === 'closed') stream.fail(closedError());
    else if (signal?.aborted) onAbort();
    else {
      signal?.addEventListener('abort', onAbort);
      this.#running.add(stream);
      void driver.run(over.signal);
    }
    return stream;
  }

  async ping({ signal }: RequestOptions = {}): Promise<number> {
    return withAbort(signal, async (own) => {
      const connection = await this.#link.connection(own);
      const start = performance.now();
      await abortable(connection.ping(), own);
      return performance.now() - start;
    });
  }

  async close(): Promise<void> {
    for (const stream of this.#running)
      stream.fail(new StreamError('STET_ERR_ABORTED', 'the client was closed', { retryable: false }));
    await this.#link.close(this.options.closeTimeoutMs ?? 2_000);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function credentialOf({ key, ticket }: ConnectOptions): Credential {
  if (key !== undefined && ticket !== undefined)
    throw new StetError('STET_ERR_UNSUPPORTED', 'key, ticket: only one of them shows who connects');
  if (key !== undefined) return { kind: 'key', key };
  return ticket === undefined ? { kind: 'none' } : { kind: 'ticket', ask: ticket };
}

/** Runs with a signal whose reason is a `StreamError` that says why. */
async function withAbort<T>(signal: AbortSignal | undefined, run: (own: AbortSignal) => Promise<T>): Promise<T> {
  const own = new AbortController();
  const onAbort = () => own.abort(aborted(signal?.reason));
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort);
  try {
    return await run(own.signal);
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

/** What the callback throws is no concern of the connection, and not swallowed either. */
function notifier(onState: ((state: ConnectionState) => void) | undefined): (state: ConnectionState) => void {
  return (state) => {
    try {
      onState?.(state);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
