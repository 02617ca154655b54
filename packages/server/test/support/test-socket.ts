import type { Socket } from 'node:net';
import { type ErrorFrame, type ServerFrame, serverFrameSchema } from '@stet/server/protocol';
import WebSocket from 'ws';
import { ObservedStream } from './stream-checker.js';

/** A plain `ws` client that holds every frame it gets against the schema and the rules of the protocol. */
export class TestSocket {
  readonly frames: ServerFrame[] = [];
  /** By id; a used id starts anew once its stream has ended. */
  readonly streams = new Map<string, ObservedStream>();
  readonly closed: Promise<{ code: number; reason: string }>;
  violation: unknown;
  #waiters: (() => void)[] = [];

  private constructor(readonly socket: WebSocket) {
    socket.on('message', (data) => this.#receive(String(data)));
    socket.on('error', () => {});
    this.closed = new Promise((resolve) => {
      socket.on('close', (code, reason) => {
        resolve({ code, reason: String(reason) });
        this.#wake();
      });
    });
  }

  static async connect(url: string, protocols: string | string[] = 'stet.v1', options = {}): Promise<TestSocket> {
    const client = new TestSocket(new WebSocket(`${url.replace('http', 'ws')}/v1/stream`, protocols, options));
    await new Promise((resolve, reject) => {
      client.socket.once('open', resolve);
      client.socket.once('error', reject);
    });
    return client;
  }

  /** Sends an object as JSON, and anything else as it is. */
  send(frame: object | string | Buffer): void {
    this.socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  generate(id: string, fields: object = {}): Promise<ObservedStream> {
    this.send({ type: 'generate', id, prompt: `prompt of ${id}`, maxTokens: 16, ...fields });
    return this.ended(id);
  }

  /** Goes on with a stream after the tokens that `lost` has of it, until its end. */
  resume(id: string, lost: ObservedStream, fields: object = {}): Promise<ObservedStream> {
    this.send({ type: 'resume', id, stream: lost.accepted!.stream, after: lost.tokenCount, ...fields });
    return this.ended(id);
  }

  /** Asks for a stream and waits until so many tokens of it have come. */
  async generateUntil(id: string, tokenCount: number, fields: object): Promise<ObservedStream> {
    this.send({ type: 'generate', id, prompt: `prompt of ${id}`, ...fields });
    const stream = new ObservedStream();
    this.streams.set(id, stream);
    await this.until(() => stream.tokens.length >= tokenCount, `${tokenCount} tokens of stream ${id}`);
    return stream;
  }

  /** Waits for the end of the stream `id`. */
  async ended(id: string): Promise<ObservedStream> {
    this.streams.set(id, new ObservedStream());
    await this.until(() => this.streams.get(id)!.end !== undefined, `the end of stream ${id}`);
    return this.streams.get(id)!;
  }

  /** The next error frame that speaks of no stream's end, sent after `frame`. */
  async refusalOf(frame: object | string | Buffer): Promise<ErrorFrame> {
    const seen = this.frames.length;
    this.send(frame);
    const find = () => this.frames.slice(seen).find((answer) => answer.type === 'error') as ErrorFrame | undefined;
    await this.until(() => find() !== undefined, 'an error frame');
    return find()!;
  }

  async until(condition: () => boolean, what: string): Promise<void> {
    const deadline = Date.now() + 20_000;
    while (!condition()) {
      if (this.violation !== undefined) throw this.violation;
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error(`the socket was closed before ${what}`);
      if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
      await new Promise<void>((resolve) => {
        this.#waiters.push(resolve);
        setTimeout(resolve, 1000).unref();
      });
    }
    if (this.violation !== undefined) throw this.violation;
  }

  /** The bare connection, for tests that misuse it. */
  get raw(): Socket {
    return (this.socket as unknown as { _socket: Socket })._socket;
  }

  #receive(text: string): void {
    try {
      const frame = serverFrameSchema.parse(JSON.parse(text));
      this.frames.push(frame);
      if (frame.type !== 'pong' && frame.seq !== undefined) this.#streamOf(frame.id!).observe(frame);
    } catch (error) {
      this.violation ??= error;
    }
    this.#wake();
  }

  #streamOf(id: string): ObservedStream {
    const known = this.streams.get(id);
    const stream = known === undefined || known.end !== undefined ? new ObservedStream() : known;
    this.streams.set(id, stream);
    return stream;
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }
}
