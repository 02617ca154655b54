import type {
  CancelFrame,
  CreditFrame,
  ErrorFrame,
  GenerateFrame,
  GenerateRequest,
  PingFrame,
  ResumeFrame,
  ServerFrame,
  StreamFrame,
} from '@stet/server/protocol';
import { badFrame, errorOfClose, errorOfFrame, StreamError } from './stream-error.js';
import { OPEN, type WebSocketLike } from './web-socket.js';

/** A frame of more bytes would close the socket, and end its other streams with it. */
export const MAX_FRAME_BYTES = 1024 * 1024;

/** After these a new connection may go on: the server goes away, the network broke, or this end read too slowly. */
const TRANSIENT_CLOSE_CODES: ReadonlySet<number> = new Set([1001, 1006, 1012, 1013]);

/** Tells a server that hears it all the same that the streams are still wanted: any code but 1000 does. */
const SILENCE_CLOSE_CODE = 4000;

export interface ConnectionOptions {
  /** Nothing heard for so long: the server is pinged; for twice as long: the connection is lost. */
  readonly heartbeatMs: number;
}

export interface OutgoingRequest extends GenerateRequest {
  readonly model?: string;
}

/** A frame that asks for a stream; its id is the connection's to choose. */
export type OpeningFrame =
  | (OutgoingRequest & Pick<GenerateFrame, 'type' | 'credit' | 'after'> & { readonly hash?: string | undefined })
  | Omit<ResumeFrame, 'id'>;

/** Why a connection ended. `transient`: a new one may go on with its streams. */
export interface Loss {
  readonly kind: 'transient' | 'final';
  readonly error: StreamError;
}

/** How a stream ended on its connection. `refused`: by the first frame. */
export type StreamEnd =
  | { readonly kind: 'done' | 'cancelled' }
  | { readonly kind: 'refused' | 'failed'; readonly error: StreamError }
  | { readonly kind: 'lost'; readonly loss: Loss };

/** One stream under one id of one connection. */
export interface Exchange {
  readonly ended: Promise<StreamEnd>;
  credit(tokenCount: number): void;
  cancel(): void;
}

interface OpenExchange {
  seq: number;
  receive(frame: StreamFrame): void;
  end(end: StreamEnd): void;
}

interface PendingPing {
  resolve(): void;
  reject(error: StreamError): void;
}

/** One open WebSocket and the streams on it. It ends with the first failure and is never used again. */
export class Connection {
  /** Resolves, never rejects, when the socket is closed. */
  readonly closed: Promise<void>;
  readonly #exchanges = new Map<string, OpenExchange>();
  readonly #pings = new Map<number, PendingPing>();
  readonly #heartbeat: ReturnType<typeof setInterval>;
  #count = 0;
  #loss: Loss | undefined;
  #onLost: (loss: Loss) => void = () => {};
  #silentBeats = 0;
  #wasHeard = false;

  constructor(
    private readonly socket: WebSocketLike,
    private readonly options: ConnectionOptions,
  ) {
    socket.addEventListener('message', ({ data }) => this.#onMessage(data));
    this.closed = new Promise((resolve) => {
      socket.addEventListener('close', ({ code, reason }) => {
        const kind = TRANSIENT_CLOSE_CODES.has(code) ? 'transient' : 'final';
        this.#lose({ kind, error: errorOfClose(code, reason) });
        resolve();
      });
    });
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeatMs);
  }

  get isOpen(): boolean {
    return this.#loss === undefined && this.socket.readyState === OPEN;
  }

  /** Whether any frame came. */
  get wasHeard(): boolean {
    return this.#wasHeard;
  }

  /** `onLost` is called once, before the streams hear of it; at once if the connection is lost already. */
  whenLost(onLost: (loss: Loss) => void): void {
    if (this.#loss === undefined) this.#onLost = onLost;
    else onLost(this.#loss);
  }

  /** Sends a `generate` or `resume` frame; what answers it goes to `receive`, which may throw a `StreamError`. */
  open(frame: OpeningFrame, receive: (frame: StreamFrame) => void): Exchange {
    const id = String(++this.#count);
    let end!: (end: StreamEnd) => void;
    const ended = new Promise<StreamEnd>((resolve) => {
      end = resolve;
    });
    const text = JSON.stringify({ ...frame, id });
    if (this.#loss !== undefined) end({ kind: 'lost', loss: this.#loss });
    else if (isTooLarge(text)) end({ kind: 'refused', error: tooLarge() });
    else {
      this.#exchanges.set(id, { seq: 0, receive, end });
      this.#send(text);
    }
    return {
      ended,
      credit: (n) => {
        if (this.#exchanges.has(id)) this.#sendFrame({ type: 'credit', id, n });
      },
      cancel: () => this.#giveUp(id, { kind: 'cancelled' }),
    };
  }

  /** Rejects with a `StreamError` when the connection is lost. */
  ping(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#loss !== undefined) {
        reject(this.#loss.error);
        return;
      }
      const t = ++this.#count;
      this.#pings.set(t, { resolve, reject });
      this.#sendFrame({ type: 'ping', t });
    });
  }

  /** Ends the streams here and on the server. */
  close(): void {
    const error = new StreamError('STET_ERR_ABORTED', 'the client was closed', { retryable: false });
    this.#lose({ kind: 'final', error });
    this.socket.close(1000);
  }

  #sendFrame(frame: CancelFrame | CreditFrame | PingFrame): void {
    this.#send(JSON.stringify(frame));
  }

  /** A socket that is about to close takes nothing; its close event comes. */
  #send(text: string): void {
    if (this.isOpen) this.socket.send(text);
  }

  #onMessage(data: unknown): void {
    if (this.#loss !== undefined) return;
    this.#silentBeats = 0;
    this.#wasHeard = true;
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
        this.#forward(frame.id, frame.seq, frame);
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

  #onError(frame: ErrorFrame): void {
    const { id, seq } = frame;
    if (id !== undefined && seq !== undefined) this.#forward(id, seq, frame);
    // The stream ended before its cancel or credit arrived.
    else if (frame.code === 'STET_ERR_UNKNOWN_ID') return;
    else this.#break(errorOfFrame(frame));
  }

  #forward(id: string, seq: number, frame: StreamFrame | ErrorFrame): void {
    const exchange = this.#exchanges.get(id);
    // Frames of a stream that was given up may still be under way.
    if (exchange === undefined) return;
    const isLast = frame.type === 'error' || frame.type === 'done';
    // Before it is received: who reads the last frame may cancel, and there is nothing to cancel any more.
    if (isLast) this.#exchanges.delete(id);
    try {
      if (seq !== exchange.seq)
        throw badFrame(`frame ${seq} came instead of frame ${exchange.seq}`, { retryable: true });
      exchange.seq++;
      if (frame.type === 'error') {
        exchange.end({ kind: seq === 0 ? 'refused' : 'failed', error: errorOfFrame(frame) });
        return;
      }
      exchange.receive(frame);
      if (isLast) exchange.end({ kind: 'done' });
    } catch (error) {
      if (!(error instanceof StreamError)) throw error;
      if (isLast) exchange.end({ kind: 'failed', error });
      else this.#giveUp(id, { kind: 'failed', error });
    }
  }

  /** Ends a stream that the server has not ended. */
  #giveUp(id: string, end: StreamEnd): void {
    const exchange = this.#exchanges.get(id);
    if (exchange === undefined) return;
    this.#exchanges.delete(id);
    this.#sendFrame({ type: 'cancel', id });
    exchange.end(end);
  }

  /** A network that is gone says nothing, and a browser does not ask. */
  #beat(): void {
    this.#silentBeats++;
    if (this.#silentBeats === 2) this.#sendFrame({ type: 'ping', t: ++this.#count });
    if (this.#silentBeats < 3) return;
    const message = `nothing was heard from the server for ${2 * this.options.heartbeatMs} ms`;
    this.#lose({ kind: 'transient', error: new StreamError('STET_ERR_CONNECTION', message, { retryable: true }) });
    this.socket.close(SILENCE_CLOSE_CODE);
  }

  /** The two ends do not understand each other. */
  #break(error: StreamError): void {
    this.#lose({ kind: 'final', error });
    this.socket.close();
  }

  #lose(loss: Loss): void {
    if (this.#loss !== undefined) return;
    this.#loss = loss;
    clearInterval(this.#heartbeat);
    this.#onLost(loss);
    for (const exchange of this.#exchanges.values()) exchange.end({ kind: 'lost', loss });
    for (const ping of this.#pings.values()) ping.reject(loss.error);
    this.#exchanges.clear();
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

function tooLarge(): StreamError {
  const message = `the request has more than ${MAX_FRAME_BYTES} bytes`;
  return new StreamError('STET_ERR_BAD_REQUEST', message, { retryable: false });
}

function isTooLarge(text: string): boolean {
  // No character takes more than three bytes of UTF-8.
  if (text.length * 3 <= MAX_FRAME_BYTES) return false;
  return new TextEncoder().encode(text).length > MAX_FRAME_BYTES;
}
