import type {
  CancelFrame,
  GenerateRequest,
  PingFrame,
  ServerFrame,
  StreamFrame,
  Subprotocol,
} from '@stet/server/protocol';
import type { ClientStream } from './client-stream.js';
import { errorOfClose, errorOfFrame, StreamError } from './stream-error.js';
import { OPEN, type WebSocketConstructor, type WebSocketLike } from './web-socket.js';

// Written out here, with the type of the protocol's own constant: the schemas stay out of a browser's bundle.
const SUBPROTOCOL: Subprotocol = 'stet.v1';

/** A frame of more bytes would close the socket, and end its other streams with it. */
export const MAX_FRAME_BYTES = 1024 * 1024;

export interface OutgoingRequest extends GenerateRequest {
  readonly model?: string;
}

interface PendingPing {
  resolve(): void;
  reject(error: StreamError): void;
}

/** One open WebSocket and its streams. It ends with the first failure and is never used again. */
export class Connection {
  /** Resolves, never rejects, when the socket is closed. */
  readonly closed: Promise<void>;
  readonly #streams = new Map<string, ClientStream>();
  readonly #pings = new Map<number, PendingPing>();
  #count = 0;

  private constructor(private readonly socket: WebSocketLike) {
    socket.addEventListener('message', ({ data }) => this.#onMessage(data));
    this.closed = new Promise((resolve) => {
      socket.addEventListener('close', ({ code, reason }) => {
        this.#fail(errorOfClose(code, reason));
        resolve();
      });
    });
  }

  /** Rejects with a `StreamError` when the server cannot be reached in time. */
  static open(WebSocket: WebSocketConstructor, url: string, timeoutMs: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(url, SUBPROTOCOL);
      const fail = (why: string) => {
        clearTimeout(timer);
        reject(new StreamError('STET_ERR_CONNECTION', `${url}: ${why}`, { retryable: true }));
      };
      const timer = setTimeout(() => {
        fail(`no answer within ${timeoutMs} ms`);
        socket.close();
      }, timeoutMs);
      socket.addEventListener('error', ({ message }) => fail(message || 'the server cannot be reached or refused'));
      socket.addEventListener('close', ({ code }) => fail(`closed with code ${code}`));
      socket.addEventListener('open', () => {
        clearTimeout(timer);
        resolve(new Connection(socket));
      });
    });
  }

  get isOpen(): boolean {
    return this.socket.readyState === OPEN;
  }

  /** Sends a request; its frames go to `stream`. Returns the id to cancel it by. */
  generate(request: OutgoingRequest, stream: ClientStream): string {
    const id = String(++this.#count);
    const text = JSON.stringify({ ...request, type: 'generate', id });
    if (isTooLarge(text)) {
      const message = `the request has more than ${MAX_FRAME_BYTES} bytes`;
      stream.fail(new StreamError('STET_ERR_BAD_REQUEST', message, { retryable: false }));
      return id;
    }
    this.#streams.set(id, stream);
    this.#send(text);
    return id;
  }

  cancel(id: string): void {
    if (!this.#streams.delete(id)) return;
    this.#send(JSON.stringify({ type: 'cancel', id } satisfies CancelFrame));
  }

  ping(): Promise<void> {
    return new Promise((resolve, reject) => {
      const t = ++this.#count;
      this.#pings.set(t, { resolve, reject });
      this.#send(JSON.stringify({ type: 'ping', t } satisfies PingFrame));
    });
  }

  close(): void {
    this.#fail(new StreamError('STET_ERR_ABORTED', 'the client was closed', { retryable: false }));
    this.socket.close(1000);
  }

  #send(text: string): void {
    if (this.isOpen) this.socket.send(text);
    else this.#fail(errorOfClose(1006, ''));
  }

  #onMessage(data: unknown): void {
    const frame = parseFrame(data);
    if (frame === undefined) this.#break(badFrame('the server sent a frame that is not an object in JSON'));
    else this.#dispatch(frame);
  }

  #dispatch(frame: ServerFrame): void {
    switch (frame.type) {
      case 'accepted':
      case 'commit':
      case 'provisional':
      case 'rollback':
      case 'done':
        this.#forward(frame, frame.id);
        return;
      case 'error':
        this.#onError(frame);
        return;
      case 'pong':
        this.#pings.get(frame.t)?.resolve();
        this.#pings.delete(frame.t);
        return;
      default:
        frame satisfies never;
        this.#break(badFrame('the server sent a frame of a type that this client does not know'));
    }
  }

  #forward(
    frame: StreamFrame | (Extract<ServerFrame, { type: 'error' }> & { readonly seq: number }),
    id: string,
  ): void {
    // Frames of a stream that was given up may still be under way.
    this.#streams.get(id)?.receive(frame);
    if (frame.type === 'done' || frame.type === 'error') this.#streams.delete(id);
  }

  #onError(frame: Extract<ServerFrame, { type: 'error' }>): void {
    const { id, seq } = frame;
    if (id !== undefined && seq !== undefined) this.#forward({ ...frame, seq }, id);
    // The stream ended before its cancel arrived.
    else if (frame.code === 'STET_ERR_UNKNOWN_ID') return;
    else this.#break(errorOfFrame(frame));
  }

  /** The two ends do not understand each other. */
  #break(error: StreamError): void {
    this.#fail(error);
    this.socket.close();
  }

  #fail(error: StreamError): void {
    for (const stream of this.#streams.values()) stream.fail(error);
    for (const ping of this.#pings.values()) ping.reject(error);
    this.#streams.clear();
    this.#pings.clear();
  }
}

function parseFrame(data: unknown): ServerFrame | undefined {
  try {
    const frame: unknown = JSON.parse(String(data));
    return typeof frame === 'object' && frame !== null ? (frame as ServerFrame) : undefined;
  } catch {
    return undefined;
  }
}

function badFrame(message: string): StreamError {
  return new StreamError('STET_ERR_BAD_FRAME', message, { retryable: false });
}

function isTooLarge(text: string): boolean {
  // No character takes more than three bytes of UTF-8.
  if (text.length * 3 <= MAX_FRAME_BYTES) return false;
  return new TextEncoder().encode(text).length > MAX_FRAME_BYTES;
}
