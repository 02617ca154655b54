import { assert, assertNever, isStetError, StetError } from '@stet/backend';
import type { Engine, GenerateEvent, GenerateEvents, GenerateRequest, ReadLimit } from '@stet/engine';
import { cacheScopeOf, type Principal } from '../auth/principal.js';
import type { Logger } from '../logger.js';
import { errorFrame, type GenerateFrame } from '../protocol/index.js';
import type { ByteBudget } from './byte-budget.js';
import { CommitRing } from './commit-ring.js';
import { type Attachment, Delivery, type DeliverySource } from './delivery.js';
import { bodyOf } from './frame-body.js';
import { Pulse } from './pulse.js';

type EventOf<T extends GenerateEvent['type']> = Extract<GenerateEvent, { type: T }>;

/** How a stream ended: with its last token, with an error of the engine, or because nobody wanted the rest. */
export type StreamOutcome = 'done' | 'failed' | 'cancelled';

/** What a client asked for. */
export interface StreamRequest {
  readonly frame: GenerateFrame;
  readonly warnings: readonly string[];
  readonly principal: Principal;
}

export interface StreamContext {
  readonly engine: Engine;
  readonly logger: Logger;
  /** Commits that are kept for a resume, in bytes of their JSON; 0 keeps none. */
  readonly bufferBytes: number;
  readonly budget: ByteBudget;
  /** The last frame is sent, and the stream has no socket any more. */
  onDelivered(stream: Stream): void;
}

/**
 * One request to the engine, with a socket or without. With one it reads the engine as fast as the socket takes the
 * commits; without, until its buffer is full. What is not read the engine merges, and then pauses the sequence.
 */
export class Stream implements DeliverySource {
  /** The server's own name of the stream. */
  readonly handle = crypto.randomUUID();
  readonly commits: CommitRing;
  /** Resolves when the request is freed. Never rejects. */
  readonly finished: Promise<void>;
  readonly #abort = new AbortController();
  readonly #pulse = new Pulse();
  readonly #after: number;
  /** Of the first `after` output tokens, those that were computed again. */
  #regenerated = 0;
  #accepted: EventOf<'accepted'> | undefined;
  #ending: string | undefined;
  #outcome: StreamOutcome = 'cancelled';
  #delivery: Delivery | undefined;

  constructor(
    readonly request: StreamRequest,
    private readonly context: StreamContext,
    attachment: Attachment,
  ) {
    this.#after = request.frame.after ?? 0;
    this.commits = new CommitRing(this.#after, context.bufferBytes, context.budget);
    this.#deliver(attachment, this.#after);
    this.finished = this.#run();
  }

  /** The body of the last frame, once the stream has ended. */
  get ending(): string | undefined {
    return this.#ending;
  }

  /** Once the stream has {@link finished}. */
  get outcome(): StreamOutcome {
    return this.#outcome;
  }

  /** Whether the client can know the handle, and so come back. */
  get isAccepted(): boolean {
    return this.#accepted !== undefined;
  }

  /**
   * Goes on under a new id, perhaps of another socket, after the tokens that the client has. Whoever had the stream gets
   * `STET_ERR_TAKEN_OVER`. Throws a `StetError`, and changes nothing, if the stream cannot be continued there.
   */
  resume(attachment: Attachment, after: number): void {
    const { start, end } = this.commits;
    if (after < start)
      throw new StetError('STET_ERR_UNKNOWN_STREAM', `the server has this stream from output token ${start} on only`);
    if (after > end) throw new StetError('STET_ERR_BAD_REQUEST', `after: only ${end} tokens were committed`);
    if (!this.commits.isBoundary(after))
      throw new StetError('STET_ERR_BAD_REQUEST', `after: no commit ended with ${after} tokens`);
    this.#delivery?.fail(new StetError('STET_ERR_TAKEN_OVER', 'the stream was resumed under another id'));
    this.#deliver(attachment, after);
  }

  /** Throws `STET_ERR_BAD_REQUEST` for credit that was not asked for or is too much. */
  addCredit(tokenCount: number): void {
    assert(this.#delivery, 'a stream that is given credit has a socket');
    this.#delivery.addCredit(tokenCount);
  }

  /** The socket is lost; the stream goes on as far as its buffer has room. */
  detach(): void {
    this.#delivery?.close();
    this.#delivery = undefined;
    this.#pulse.fire();
  }

  /** Frees the request and what is kept; a socket gets `reason` as the last frame. */
  cancel(reason: StetError): void {
    const delivery = this.#delivery;
    this.#delivery = undefined;
    this.#abort.abort(reason);
    this.commits.clear();
    this.#pulse.fire();
    delivery?.fail(reason);
  }

  onSent(tokenCount: number): void {
    this.commits.trim(tokenCount);
  }

  onCaughtUp(): void {
    this.#pulse.fire();
  }

  onDelivered(): void {
    this.#delivery = undefined;
    this.context.onDelivered(this);
  }

  #deliver(attachment: Attachment, after: number): void {
    this.#delivery = new Delivery(attachment, this, after);
    if (this.#accepted !== undefined) this.#delivery.accept(this.#acceptedBody(this.#accepted, after));
    void this.#delivery.run();
    this.#pulse.fire();
  }

  async #run(): Promise<void> {
    const { engine, logger } = this.context;
    const { frame, principal } = this.request;
    let events: GenerateEvents | undefined;
    try {
      events = engine.generate(requestOf(frame), { signal: this.#abort.signal, ...cacheScopeOf(principal) });
      await this.#readAll(events);
    } catch (error) {
      this.#fail(error);
    }
    try {
      await events?.return?.();
    } catch (error) {
      logger.error({ stream: this.handle, err: error }, 'the engine failed to end a stream');
    }
  }

  async #readAll(events: GenerateEvents): Promise<void> {
    const { signal } = this.#abort;
    for (;;) {
      await this.#mayRead();
      signal.throwIfAborted();
      const next = await events.next(this.#readLimit());
      signal.throwIfAborted();
      if (next.done) throw new Error('the events of a stream ended before "done"');
      this.#take(next.value);
      if (next.value.type === 'done') return;
    }
  }

  /** Waits until somebody takes what is read, or there is room to keep it. */
  async #mayRead(): Promise<void> {
    while (!this.#abort.signal.aborted) {
      const delivery = this.#delivery;
      if (delivery === undefined) {
        if (this.commits.hasRoom) return;
        await this.#pulse.wait();
      } else if (delivery.isCaughtUp) {
        const room = delivery.room();
        if (room === undefined) return;
        await room;
      } else await this.#pulse.wait();
    }
  }

  /** Without credit one token is read all the same, to see whether the stream has ended; it then waits to be sent. */
  #readLimit(): ReadLimit | undefined {
    if (this.#regenerated < this.#after) return { maxTokens: this.#after - this.#regenerated };
    const credit = this.#delivery?.credit ?? Number.POSITIVE_INFINITY;
    return credit === Number.POSITIVE_INFINITY ? undefined : { maxTokens: Math.max(1, credit) };
  }

  #take(event: GenerateEvent): void {
    switch (event.type) {
      case 'accepted':
        this.#accepted = event;
        this.#delivery?.accept(this.#acceptedBody(event, this.#after));
        return;
      case 'commit':
        if (this.#regenerated < this.#after) this.#checkRegenerated(event);
        else this.#keep(event);
        return;
      case 'provisional':
        if (this.#regenerated === this.#after) this.#delivery?.showCandidates(event);
        return;
      case 'rollback':
        if (this.#regenerated === this.#after) this.#delivery?.withdraw(event);
        return;
      case 'done':
        if (this.#regenerated < this.#after) throw mismatch(`the output has ${this.#regenerated} tokens only`);
        this.#outcome = 'done';
        this.#finish(bodyOf(event));
        return;
      default:
        assertNever(event);
    }
  }

  #checkRegenerated({ tokens, hash }: EventOf<'commit'>): void {
    this.#regenerated += tokens.length;
    assert(this.#regenerated <= this.#after, 'a read takes no more tokens than its limit');
    if (this.#regenerated === this.#after && hash !== this.request.frame.hash)
      throw mismatch(`the first ${this.#after} tokens are others`);
  }

  #keep(event: EventOf<'commit'>): void {
    this.commits.push({ from: event.from, to: event.from + event.tokens.length, body: bodyOf(event) });
    this.#delivery?.poke();
  }

  #finish(ending: string): void {
    this.#ending = ending;
    this.#delivery?.poke();
  }

  #fail(error: unknown): void {
    // Whoever cancelled has told the client.
    if (this.#abort.signal.aborted) return;
    this.#outcome = 'failed';
    const known = isStetError(error);
    if (!known) this.context.logger.error({ stream: this.handle, err: error }, 'a stream failed unexpectedly');
    const reported = known ? error : new StetError('STET_ERR_INTERNAL', `stream ${this.handle} failed unexpectedly`);
    this.#finish(bodyOf(errorFrame({}, reported)));
  }

  #acceptedBody(event: EventOf<'accepted'>, after: number): string {
    const { warnings } = this.request;
    return bodyOf({
      ...event,
      stream: this.handle,
      ...(after > 0 && { after }),
      ...(warnings.length > 0 && { warnings }),
    });
  }
}

function mismatch(message: string): StetError {
  return new StetError('STET_ERR_RESUME_MISMATCH', message);
}

function requestOf(frame: GenerateFrame): GenerateRequest {
  const { type: _t, id: _i, model: _m, after: _a, hash: _h, credit: _c, ...request } = frame;
  return request;
}
