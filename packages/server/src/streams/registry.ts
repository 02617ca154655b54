import { StetError } from '@stet/backend';
import type { Engine } from '@stet/engine';
import type { Principal } from '../auth/principal.js';
import type { ServerLimits } from '../limits.js';
import type { Logger } from '../logger.js';
import type { ResumeFrame } from '../protocol/index.js';
import { ByteBudget } from './byte-budget.js';
import type { Attachment } from './delivery.js';
import { Stream, type StreamOutcome, type StreamRequest } from './stream.js';

export interface RegistryContext {
  readonly engine: Engine;
  readonly limits: ServerLimits;
  readonly logger: Logger;
  /** A request is freed. */
  onEnded(outcome: StreamOutcome): void;
}

export interface RegistryStats {
  /** Streams without a socket, running or ended, that can still be resumed. */
  readonly detachedStreams: number;
  /** Bytes of commits that are kept of all streams. */
  readonly keptBytes: number;
}

/** Every stream of a server: those of its sockets, and those that were left behind and wait for their client. */
export class StreamRegistry {
  readonly #streams = new Map<string, Stream>();
  /** Without a socket, oldest first, with the end of their time. */
  readonly #detached = new Map<Stream, NodeJS.Timeout>();
  readonly #runs = new Set<Promise<void>>();
  readonly #budget: ByteBudget;
  #state: 'open' | 'draining' = 'open';

  constructor(private readonly context: RegistryContext) {
    this.#budget = new ByteBudget(context.limits.resumeTotalBytes);
  }

  stats(): RegistryStats {
    return { detachedStreams: this.#detached.size, keptBytes: this.#budget.usedBytes };
  }

  /** Sends a request to the engine. What is wrong with it, the attachment gets as the last frame. */
  open(request: StreamRequest, attachment: Attachment): Stream {
    const { engine, logger, limits } = this.context;
    const context = {
      engine,
      logger,
      bufferBytes: limits.resumeWindowMs === 0 ? 0 : limits.resumeBufferBytes,
      budget: this.#budget,
      onDelivered: (delivered: Stream) => this.#leave(delivered),
    };
    const stream = new Stream(request, context, attachment);
    this.#streams.set(stream.handle, stream);
    const run = stream.finished.then(() => {
      this.#runs.delete(run);
      const { handle, outcome } = stream;
      logger.info({ stream: handle, key: request.principal.name, outcome }, 'stream ended');
      this.context.onEnded(outcome);
    });
    this.#runs.add(run);
    return stream;
  }

  /** Throws a `StetError` where the stream is unknown, belongs to somebody else, or cannot go on from there. */
  resume({ stream: handle, after }: ResumeFrame, principal: Principal, attachment: Attachment): Stream {
    const stream = this.#streams.get(handle);
    if (stream === undefined || stream.request.principal !== principal)
      throw new StetError('STET_ERR_UNKNOWN_STREAM', 'there is no such stream');
    stream.resume(attachment, after);
    this.#claim(stream);
    return stream;
  }

  /** The socket of the stream is lost. */
  detach(stream: Stream): void {
    stream.detach();
    this.#leave(stream);
  }

  /** Ends the stream for good; its socket, if it has one, gets `reason` as the last frame. */
  cancel(stream: Stream, reason: StetError): void {
    this.#claim(stream);
    this.#streams.delete(stream.handle);
    stream.cancel(reason);
  }

  /** The key of `principal` is no more: nobody can come for its streams. */
  revoke(principal: Principal): void {
    for (const stream of this.#detached.keys()) {
      if (stream.request.principal === principal) this.#forget(stream, 'its key was revoked');
    }
  }

  /** Nobody can come any more: keeps no stream without a socket, now and later. */
  drain(): void {
    this.#state = 'draining';
    for (const stream of this.#detached.keys()) this.#forget(stream, 'the server is going away');
  }

  /** Resolves when the requests of all streams that were ended are freed. */
  async freed(): Promise<void> {
    await Promise.all(this.#runs);
  }

  /** Keeps a stream that has lost its socket, or was delivered to its end but perhaps not received. */
  #leave(stream: Stream): void {
    const { resumeWindowMs } = this.context.limits;
    if (this.#state !== 'open' || resumeWindowMs === 0 || !stream.isAccepted) {
      this.#forget(stream, 'the socket was closed');
      return;
    }
    this.#detached.set(
      stream,
      setTimeout(() => this.#forget(stream, 'nobody resumed it'), resumeWindowMs),
    );
    if (this.#isCrowded(stream.request.principal)) this.#forget(this.#oldest(stream.request.principal), 'others came');
  }

  /** Whether one stream too many is kept, of this principal or of all. */
  #isCrowded(principal: Principal): boolean {
    const { maxDetachedStreams, maxDetachedStreamsPerKey } = this.context.limits;
    if (this.#detached.size > maxDetachedStreams) return true;
    if (this.#detached.size <= maxDetachedStreamsPerKey) return false;
    let count = 0;
    for (const { request } of this.#detached.keys()) if (request.principal === principal) count++;
    return count > maxDetachedStreamsPerKey;
  }

  /** The oldest kept stream that has ended, or else the oldest: of this principal, so that nobody pushes out another's. */
  #oldest(principal: Principal): Stream {
    const own = [...this.#detached.keys()].filter(({ request }) => request.principal === principal);
    return own.find(({ ending }) => ending !== undefined) ?? own[0]!;
  }

  #forget(stream: Stream, why: string): void {
    if (stream.ending === undefined) this.context.logger.info({ stream: stream.handle }, `stream given up: ${why}`);
    this.cancel(stream, new StetError('STET_ERR_ABORTED', `the stream was given up: ${why}`));
  }

  /** No longer without a socket. */
  #claim(stream: Stream): void {
    clearTimeout(this.#detached.get(stream));
    this.#detached.delete(stream);
  }
}
