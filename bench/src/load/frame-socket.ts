import type { Socket } from 'node:net';
import {
  type AcceptedFrame,
  type DoneFrame,
  type ErrorFrame,
  type ServerFrame,
  STREAM_PATH,
  type StreamFrame,
  SUBPROTOCOL,
} from '@stet/server/protocol';
import { WebSocket } from 'ws';
import { StreamChecker, type Transcript, Violation } from './stream-checker.js';

/** How WebSocket calls a connection that ended without a close frame. */
const LOST = 1006;

export type StreamEnd =
  | { readonly kind: 'done'; readonly frame: DoneFrame }
  | { readonly kind: 'refused'; readonly frame: ErrorFrame }
  | { readonly kind: 'violation'; readonly error: Violation }
  /** The socket was closed before. */
  | { readonly kind: 'cut'; readonly closeCode: number };

/** A request under one id of one socket. */
export class OpenStream {
  readonly ended: Promise<StreamEnd>;
  accepted: AcceptedFrame | undefined;
  /** Of each kind. */
  readonly seen = { commit: 0, provisional: 0, rollback: 0 };
  onFrame: (frame: StreamFrame | ErrorFrame) => void = () => {};
  readonly #checker: StreamChecker;
  #settle!: (end: StreamEnd) => void;
  #recheck = () => {};
  #state: 'open' | 'ended' = 'open';

  constructor(
    readonly id: string,
    readonly transcript: Transcript,
  ) {
    this.#checker = new StreamChecker(transcript);
    this.ended = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  receive(frame: StreamFrame | ErrorFrame): void {
    try {
      this.#checker.observe(frame);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.end({ kind: 'violation', error });
      return;
    }
    if (frame.type === 'accepted') this.accepted = frame;
    else if (frame.type === 'done') this.end({ kind: 'done', frame });
    else if (frame.type === 'error') this.end({ kind: 'refused', frame });
    else this.seen[frame.type]++;
    this.onFrame(frame);
    this.#recheck();
  }

  end(end: StreamEnd): void {
    this.#settle(end);
    this.#state = 'ended';
    this.#recheck();
  }

  /** Waits until the stream has come so far; false where it ended before. */
  async reaches(condition: (stream: OpenStream) => boolean): Promise<boolean> {
    while (!condition(this)) {
      if (this.#state === 'ended') return false;
      await new Promise<void>((resolve) => {
        this.#recheck = resolve;
      });
    }
    return true;
  }
}

/** A bare `ws` client that checks every frame and mends nothing. */
export class FrameSocket {
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  /** Of all frames that came. */
  receivedBytes = 0;
  readonly #streams = new Map<string, OpenStream>();
  #count = 0;

  private constructor(private readonly socket: WebSocket) {
    socket.on('message', (data) => {
      const text = String(data);
      this.receivedBytes += text.length;
      this.#receive(JSON.parse(text) as ServerFrame);
    });
    // A close follows.
    socket.on('error', () => {});
    this.closed = new Promise((resolve) => {
      socket.once('close', (code, reason) => {
        this.#cut(code);
        resolve({ code, reason: String(reason) });
      });
    });
  }

  /** `url`: of the server, `http://host:port`. */
  static async connect(url: string): Promise<FrameSocket> {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${STREAM_PATH}`, SUBPROTOCOL);
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    return new FrameSocket(socket);
  }

  /** Sends a frame that asks for a stream, under an id of its own. */
  start(frame: object, transcript: Transcript): OpenStream {
    const stream = new OpenStream(`${this.#count++}`, transcript);
    this.#streams.set(stream.id, stream);
    this.send({ ...frame, id: stream.id });
    return stream;
  }

  send(frame: object): void {
    this.socket.send(JSON.stringify(frame));
  }

  /** Takes nothing from the operating system, so that its buffers and then the server's fill. */
  pause(): void {
    this.#raw.pause();
  }

  resume(): void {
    this.#raw.resume();
  }

  /** Ends the TCP connection without a word; what is still in buffers counts as not received. */
  terminate(): void {
    this.#cut(LOST);
    this.socket.terminate();
  }

  /** Leaves the connection open and never reads it again, as a host that vanished does. */
  abandon(): void {
    this.#cut(LOST);
    this.pause();
  }

  async close(): Promise<void> {
    this.socket.close(1000);
    await this.closed;
  }

  /** `ws` stops after what its own buffers hold; the bare connection stops at once. */
  get #raw(): Socket {
    return (this.socket as unknown as { readonly _socket: Socket })._socket;
  }

  #cut(closeCode: number): void {
    for (const stream of this.#streams.values()) stream.end({ kind: 'cut', closeCode });
    this.#streams.clear();
  }

  #receive(frame: ServerFrame): void {
    if (frame.type === 'pong' || frame.id === undefined) return;
    const stream = this.#streams.get(frame.id);
    // Without `seq` it is the answer to a cancel that came too late.
    if (frame.seq === undefined || stream === undefined) return;
    stream.receive(frame);
    if (frame.type === 'done' || frame.type === 'error') this.#streams.delete(frame.id);
  }
}
