import { assertNever, isStetError, StetError } from '@stet/backend';
import type { Engine, GenerateEvent, GenerateRequest } from '@stet/engine';
import type { Logger } from './logger.js';
import type { Outbox } from './outbox.js';
import { errorFrame, type GenerateFrame, type StreamFrame } from './protocol/index.js';

export interface StreamContext {
  readonly engine: Engine;
  readonly outbox: Outbox;
  readonly logger: Logger;
  /** The stream's id is free again; called once, just before its last frame is sent. */
  onEnd(): void;
}

/** One request of one socket: reads the engine's events as fast as the socket takes their frames. */
export class Stream {
  /** The server's own name of the stream. */
  readonly handle = crypto.randomUUID();
  readonly #abort = new AbortController();
  #seq = 0;

  constructor(
    private readonly frame: GenerateFrame,
    private readonly warnings: readonly string[],
    private readonly context: StreamContext,
  ) {}

  /** Ends the stream with `reason` as its last frame and frees its request. */
  cancel(reason: StetError): void {
    this.#abort.abort(reason);
  }

  /** Resolves when the last frame is sent and the request is freed. Never rejects. */
  async run(): Promise<void> {
    const { engine, logger } = this.context;
    let events: AsyncIterator<GenerateEvent> | undefined;
    try {
      events = engine.generate(requestOf(this.frame), { signal: this.#abort.signal });
      await this.#forward(events);
    } catch (error) {
      this.#fail(error);
    }
    try {
      await events?.return?.();
    } catch (error) {
      logger.error({ stream: this.handle, err: error }, 'the engine failed to end a stream');
    }
  }

  async #forward(events: AsyncIterator<GenerateEvent>): Promise<void> {
    const { outbox } = this.context;
    const { signal } = this.#abort;
    for (;;) {
      // While this waits the engine merges what the sequence commits, and pauses it when too much is unread.
      await outbox.ready(signal);
      signal.throwIfAborted();
      const next = await events.next();
      signal.throwIfAborted();
      if (next.done) throw new Error('the events of a stream ended before "done"');
      if (next.value.type === 'done') this.context.onEnd();
      outbox.send(this.#frameOf(next.value));
      if (next.value.type === 'done') return;
    }
  }

  #frameOf(event: GenerateEvent): StreamFrame {
    const { id } = this.frame;
    const seq = this.#seq++;
    switch (event.type) {
      case 'accepted':
        return { ...event, id, seq, stream: this.handle, ...(this.warnings.length > 0 && { warnings: this.warnings }) };
      case 'commit':
      case 'provisional':
      case 'rollback':
      case 'done':
        return { ...event, id, seq };
      default:
        return assertNever(event);
    }
  }

  #fail(thrown: unknown): void {
    const { outbox, logger } = this.context;
    const { signal } = this.#abort;
    const error: unknown = signal.aborted ? signal.reason : thrown;
    const known = isStetError(error);
    if (!known) logger.error({ stream: this.handle, err: error }, 'a stream failed unexpectedly');
    this.context.onEnd();
    const reported = known ? error : new StetError('STET_ERR_INTERNAL', `stream ${this.handle} failed unexpectedly`);
    outbox.send(errorFrame({ id: this.frame.id, seq: this.#seq++ }, reported));
  }
}

function requestOf(frame: GenerateFrame): GenerateRequest {
  const { type: _type, id: _id, model: _model, ...request } = frame;
  return request;
}
