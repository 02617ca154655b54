import { type ClientEvent, ClientStream } from './client-stream.js';
import { Connection, type OutgoingRequest } from './connection.js';
import { aborted, StreamError } from './stream-error.js';
import { findWebSocket, streamUrl, type WebSocketConstructor } from './web-socket.js';

export interface ConnectOptions {
  /** By default the platform's WebSocket, or that of the package `ws`. */
  readonly WebSocket?: WebSocketConstructor;
  /** How long the server may take to accept the connection; 10 000 by default. */
  readonly connectTimeoutMs?: number;
  /** How long `close()` waits for the server's answer; 2 000 by default. */
  readonly closeTimeoutMs?: number;
}

export interface StetClient {
  /**
   * Streams one request, as `Engine.generate` does; many may run at once. It is sent right away. Leaving the loop or
   * aborting `signal` cancels it on the server. Throws a `StreamError` with the server's code, with
   * `STET_ERR_CONNECTION` when the connection is lost, and with `STET_ERR_ABORTED`. Events that are not read are merged,
   * so a reader may take its time: it holds at most the tokens that its request asks for.
   */
  generate(request: OutgoingRequest, options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<ClientEvent>;
  /** The milliseconds a frame takes to the server and back. Rejects with a `StreamError` when the connection is lost. */
  ping(): Promise<number>;
  /** Cancels what runs and closes the connection. May be called twice. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Connects to a server at `ws://host:port`. A connection that is lost ends its streams; the next request opens a new one.
 * Rejects with `STET_ERR_CONNECTION` when there is no server, with `STET_ERR_UNSUPPORTED` for an address or a runtime
 * that cannot work.
 *
 *     const client = await connect('ws://127.0.0.1:8642');
 *     for await (const event of client.generate({ prompt: 'Once upon a time', deterministic: true }))
 *       if (event.type === 'commit') process.stdout.write(event.text);
 */
export async function connect(address: string | URL, options: ConnectOptions = {}): Promise<StetClient> {
  const url = streamUrl(address);
  const WebSocket = options.WebSocket ?? (await findWebSocket());
  const client = new StreamClient(url, WebSocket, options);
  await client.connection();
  return client;
}

class StreamClient implements StetClient {
  readonly #open: () => Promise<Connection>;
  readonly #closeTimeoutMs: number;
  #current: Promise<Connection> | undefined;
  #established: Connection | undefined;
  #state: 'open' | 'closed' = 'open';

  constructor(url: string, WebSocket: WebSocketConstructor, options: ConnectOptions) {
    const { connectTimeoutMs = 10_000, closeTimeoutMs = 2_000 } = options;
    this.#open = () => Connection.open(WebSocket, url, connectTimeoutMs);
    this.#closeTimeoutMs = closeTimeoutMs;
  }

  /** The open connection, or a new one that all who ask in the meantime share. */
  connection(): Promise<Connection> {
    if (this.#current !== undefined && (this.#established === undefined || this.#established.isOpen))
      return this.#current;
    this.#established = undefined;
    const opening = this.#open();
    this.#current = opening;
    opening.then(
      (connection) => {
        this.#established = connection;
        if (this.#state === 'closed') connection.close();
      },
      () => {
        this.#current = undefined;
      },
    );
    return opening;
  }

  generate(request: OutgoingRequest, { signal }: { readonly signal?: AbortSignal } = {}): ClientStream {
    let cancel = () => {};
    const onAbort = () => stream.cancel(aborted(signal?.reason));
    const stream = new ClientStream({
      onCancel: () => cancel(),
      onEnd: () => signal?.removeEventListener('abort', onAbort),
    });
    if (this.#state === 'closed') {
      stream.fail(closed());
      return stream;
    }
    if (signal?.aborted) {
      stream.fail(aborted(signal.reason));
      return stream;
    }
    signal?.addEventListener('abort', onAbort);
    this.connection().then(
      (connection) => {
        if (stream.state === 'ended') return;
        const id = connection.generate(request, stream);
        cancel = () => connection.cancel(id);
      },
      (error: StreamError) => stream.fail(error),
    );
    return stream;
  }

  async ping(): Promise<number> {
    if (this.#state === 'closed') throw closed();
    const connection = await this.connection();
    const start = performance.now();
    await connection.ping();
    return performance.now() - start;
  }

  async close(): Promise<void> {
    this.#state = 'closed';
    const connection = await this.#current?.catch(() => undefined);
    if (connection === undefined) return;
    connection.close();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#closeTimeoutMs);
    });
    await Promise.race([connection.closed, timeout]);
    clearTimeout(timer);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function closed(): StreamError {
  return new StreamError('STET_ERR_CONNECTION', 'the client was closed', { retryable: false });
}
