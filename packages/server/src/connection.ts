import { assertNever, isStetError, StetError, type StetErrorCode } from '@stet/backend';
import type { Engine } from '@stet/engine';
import type { RawData, WebSocket } from 'ws';
import type { Admission } from './auth/admission.js';
import type { Principal } from './auth/principal.js';
import type { ServerLimits } from './limits.js';
import type { Logger } from './logger.js';
import { Outbox } from './outbox.js';
import {
  type CreditFrame,
  closeCodes,
  errorFrame,
  type GenerateFrame,
  type ParsedFrame,
  parseClientFrame,
  type ResumeFrame,
} from './protocol/index.js';
import type { Attachment } from './streams/delivery.js';
import type { StreamRegistry } from './streams/registry.js';
import type { Stream } from './streams/stream.js';

export interface ConnectionContext {
  readonly engine: Engine;
  readonly limits: ServerLimits;
  readonly logger: Logger;
  readonly principal: Principal;
  readonly admission: Admission;
  readonly streams: StreamRegistry;
}

/** How `ws` reports a close frame without a code. */
const NO_CODE = 1005;

/** One WebSocket and the streams that it carries now. */
export class Connection {
  /** Resolves when the socket is closed and all requests that were cancelled with it are freed. */
  readonly finished: Promise<void>;
  readonly #outbox: Outbox;
  readonly #streams = new Map<string, Stream>();
  readonly #cancelled = new Set<Promise<void>>();
  #state: 'open' | 'draining' | 'closing' = 'open';
  #heard = true;

  constructor(
    private readonly socket: WebSocket,
    private readonly context: ConnectionContext,
  ) {
    this.#outbox = new Outbox(socket, context.limits, {
      onFull: () => socket.pause(),
      onDrained: () => socket.resume(),
      onSlow: () => this.#closeSlowReader(),
    });
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary));
    socket.on('pong', () => {
      this.#heard = true;
    });
    // `ws` closes the socket by itself with the code of the violation.
    socket.on('error', (error) => {
      context.logger.warn({ code: 'code' in error ? error.code : error.name }, 'socket error');
      this.#abandon(closed());
    });
    this.finished = new Promise((resolve) => {
      socket.on('close', (code) => {
        context.logger.info({ code, streams: this.#streams.size }, 'socket closed');
        if (isClientsWish(code)) this.#abandon(closed());
        else this.#detachAll();
        resolve(Promise.all(this.#cancelled).then(() => undefined));
      });
    });
  }

  get principal(): Principal {
    return this.context.principal;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  get unsentBytes(): number {
    return this.#outbox.unsentBytes;
  }

  /** Pings, or terminates the socket if nothing was heard since the last ping. */
  beat(): void {
    // A full outbox stops reading, so a pong cannot be heard; its own deadline is running.
    if (this.#outbox.state === 'full') return;
    if (!this.#heard) {
      this.socket.terminate();
      return;
    }
    this.#heard = false;
    if (this.socket.readyState === this.socket.OPEN) this.socket.ping();
  }

  /** Takes no new streams and closes the socket with 1001 when the last one has ended. */
  drain(): void {
    if (this.#state !== 'open') return;
    this.#state = 'draining';
    this.#closeIfDrained();
  }

  /** Cuts off what still runs and closes the socket with 1012. */
  restart(): void {
    this.#cutOff(new StetError('STET_ERR_SHUTTING_DOWN', 'the server is restarting'), closeCodes.restart);
  }

  /** The key is no more: cuts off what still runs and closes the socket with 1008. */
  revoke(): void {
    this.#cutOff(new StetError('STET_ERR_UNAUTHORIZED', 'the key was revoked'), closeCodes.unauthorized);
  }

  #cutOff(reason: StetError, closeCode: number): void {
    if (this.#state === 'closing') return;
    this.#state = 'closing';
    this.#cancelAll(reason);
    void Promise.all(this.#cancelled).then(() => this.#close(closeCode, reason.code));
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#state === 'closing') return;
    this.#heard = true;
    if (isBinary) this.#refuse({}, 'STET_ERR_BAD_FRAME', 'the frame is binary; send JSON in a text frame');
    else this.#dispatch(parseClientFrame(data.toString()));
  }

  #dispatch(parsed: ParsedFrame): void {
    switch (parsed.kind) {
      case 'generate':
        this.#generate(parsed.frame, parsed.warnings);
        return;
      case 'resume':
        this.#resume(parsed.frame);
        return;
      case 'credit':
        this.#addCredit(parsed.frame);
        return;
      case 'cancel':
        this.#cancelOne(parsed.frame.id);
        return;
      case 'ping':
        this.#outbox.send({ type: 'pong', t: parsed.frame.t });
        return;
      case 'refused':
        if (parsed.id !== undefined && parsed.asked === 'stream')
          this.#refuseStream(parsed.id, parsed.code, parsed.message);
        else this.#refuse(parsed.id === undefined ? {} : { id: parsed.id }, parsed.code, parsed.message);
        return;
      default:
        assertNever(parsed);
    }
  }

  #generate(frame: GenerateFrame, warnings: readonly string[]): void {
    const { admission, principal, streams } = this.context;
    this.#open(frame, (attachment) => {
      const place = admission.admitStream(principal);
      if (place.kind === 'refused') throw new StetError(place.code, place.message);
      const stream = streams.open({ frame, warnings, principal }, attachment);
      // It runs on without its socket.
      void stream.finished.then(() => place.release());
      return stream;
    });
  }

  #resume(frame: ResumeFrame): void {
    const { principal, streams } = this.context;
    this.#open(frame, (attachment) => streams.resume(frame, principal, attachment));
  }

  /** Starts a stream under a new id, or says why not. */
  #open(frame: GenerateFrame | ResumeFrame, attach: (attachment: Attachment) => Stream): void {
    const { id, credit } = frame;
    if (this.#streams.has(id)) {
      this.#refuse({ id }, 'STET_ERR_DUPLICATE_ID', 'a stream with this id is open');
      return;
    }
    const refusal = this.#refusal(frame);
    if (refusal !== undefined) {
      this.#refuseStream(id, ...refusal);
      return;
    }
    const onEnd = () => {
      this.#streams.delete(id);
      this.#closeIfDrained();
    };
    try {
      const stream = attach({ id, outbox: this.#outbox, onEnd, ...(credit !== undefined && { credit }) });
      this.#streams.set(id, stream);
      const what = frame.type === 'generate' ? 'stream opened' : 'stream resumed';
      this.context.logger.info({ stream: stream.handle }, what);
    } catch (error) {
      if (!isStetError(error)) throw error;
      this.#refuseStream(id, error.code, error.message);
    }
  }

  /** Why this socket cannot take a well-formed request now. */
  #refusal(frame: GenerateFrame | ResumeFrame): [StetErrorCode, string] | undefined {
    const { engine, limits } = this.context;
    if (this.#state !== 'open') return ['STET_ERR_SHUTTING_DOWN', 'the server is going away'];
    if (this.#streams.size >= limits.maxStreamsPerSocket)
      return ['STET_ERR_TOO_MANY_STREAMS', `at most ${limits.maxStreamsPerSocket} streams may be open on a socket`];
    if (frame.type === 'generate' && frame.model !== undefined && frame.model !== engine.info.model)
      return ['STET_ERR_BAD_REQUEST', `model: this server serves "${engine.info.model}"`];
    return undefined;
  }

  #addCredit({ id, n }: CreditFrame): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#refuse({ id }, 'STET_ERR_UNKNOWN_ID', 'no open stream has this id');
      return;
    }
    try {
      stream.addCredit(n);
    } catch (error) {
      if (!isStetError(error)) throw error;
      this.#refuse({ id }, error.code, error.message);
    }
  }

  #cancelOne(id: string): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) this.#refuse({ id }, 'STET_ERR_UNKNOWN_ID', 'no open stream has this id');
    else this.#cancel(stream, new StetError('STET_ERR_ABORTED', 'the stream was cancelled by its client'));
  }

  /** Answers a frame that started no stream. */
  #refuse(subject: { id?: string }, code: StetErrorCode, message: string): void {
    this.#outbox.send(errorFrame(subject, new StetError(code, message)));
  }

  /** A stream whose first frame is its last, unless `id` already names an open one, which goes on. */
  #refuseStream(id: string, code: StetErrorCode, message: string): void {
    const subject = this.#streams.has(id) ? { id } : { id, seq: 0 };
    this.#outbox.send(errorFrame(subject, new StetError(code, message)));
  }

  #closeIfDrained(): void {
    if (this.#state === 'draining' && this.#streams.size === 0)
      this.#close(closeCodes.goingAway, 'STET_ERR_SHUTTING_DOWN');
  }

  #closeSlowReader(): void {
    this.context.logger.warn({ unsentBytes: this.unsentBytes, streams: this.#streams.size }, 'slow reader');
    this.#abandon(new StetError('STET_ERR_SLOW_READER', 'the client did not read'));
    this.#close(closeCodes.overloaded, 'STET_ERR_SLOW_READER');
  }

  #close(code: number, reason: StetErrorCode): void {
    this.#state = 'closing';
    this.#outbox.close();
    // The answer to the close frame must be read even if reading was paused.
    this.socket.resume();
    this.socket.close(code, reason);
  }

  /** Nobody reads any more: frees every request, sends nothing. */
  #abandon(reason: StetError): void {
    this.#state = 'closing';
    this.#outbox.close();
    this.#cancelAll(reason);
  }

  /** The socket is lost; its streams wait for their client. */
  #detachAll(): void {
    this.#state = 'closing';
    this.#outbox.close();
    for (const stream of this.#streams.values()) this.context.streams.detach(stream);
    this.#streams.clear();
  }

  #cancelAll(reason: StetError): void {
    for (const stream of [...this.#streams.values()]) this.#cancel(stream, reason);
  }

  #cancel(stream: Stream, reason: StetError): void {
    const { finished } = stream;
    this.#cancelled.add(finished);
    void finished.then(() => this.#cancelled.delete(finished));
    this.context.streams.cancel(stream, reason);
  }
}

/** Whether a socket ended because its client wanted it to: with 1000, or with a close frame that has no code. */
function isClientsWish(code: number): boolean {
  return code === closeCodes.done || code === NO_CODE;
}

function closed(): StetError {
  return new StetError('STET_ERR_CONNECTION', 'the socket was closed');
}
