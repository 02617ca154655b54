import { StetError } from '@stet/backend';
import type { GenerateEvent } from '@stet/engine';
import type { Outbox } from '../outbox.js';
import { errorFrame, protocolLimits } from '../protocol/index.js';
import type { CommitRing, KeptCommit } from './commit-ring.js';
import { bodyOf, frameText } from './frame-body.js';
import { Pulse } from './pulse.js';

type EventOf<T extends GenerateEvent['type']> = Extract<GenerateEvent, { type: T }>;

/** Where a stream is sent: under an id of one socket. */
export interface Attachment {
  readonly id: string;
  readonly outbox: Outbox;
  /** Output tokens that may be committed until the client gives more; absent: as many as come. */
  readonly credit?: number;
  /** The last frame under this id is sent, so the id is free again. */
  onEnd(): void;
}

/** What a delivery takes from its stream, and tells it. */
export interface DeliverySource {
  readonly commits: CommitRing;
  /** The body of the last frame, once the stream has ended. */
  readonly ending: string | undefined;
  /** A commit is on its way to the client, which then has the first `tokenCount` tokens. */
  onSent(tokenCount: number): void;
  /** Every commit is sent. */
  onCaughtUp(): void;
  /** The last frame is sent. */
  onDelivered(): void;
}

/** One stream on its way to one socket: sends commits in order as fast as the socket and the credit allow. */
export class Delivery {
  readonly #closed = new AbortController();
  readonly #news = new Pulse();
  #seq = 0;
  #sent: number;
  /** Up to this index the client knows tokens, committed or candidates. */
  #known: number;
  #credit: number;

  /** `after`: output tokens that the client has. */
  constructor(
    private readonly attachment: Attachment,
    private readonly source: DeliverySource,
    after: number,
  ) {
    this.#sent = after;
    this.#known = after;
    this.#credit = attachment.credit ?? Number.POSITIVE_INFINITY;
  }

  /** Output tokens that may still be sent; below 1 none may. */
  get credit(): number {
    return this.#credit;
  }

  get isCaughtUp(): boolean {
    return this.#sent === this.source.commits.end;
  }

  /** Undefined while the socket takes more, else a promise that resolves once it does, or once this is over. */
  room(): Promise<void> | undefined {
    return this.attachment.outbox.ready(this.#closed.signal);
  }

  /** The first frame, before {@link run}. */
  accept(body: string): void {
    this.#send(body);
  }

  /** Resolves when the last frame is sent or the delivery was closed. Never rejects. */
  async run(): Promise<void> {
    const { commits } = this.source;
    for (;;) {
      // Where there is room this yields all the same, so that the streams of a socket take turns.
      await this.room();
      if (this.#closed.signal.aborted) return;
      const commit = this.#credit > 0 ? commits.at(this.#sent) : undefined;
      if (commit !== undefined) this.#sendCommit(commit);
      else if (this.isCaughtUp && this.source.ending !== undefined) {
        this.#end(this.source.ending);
        this.source.onDelivered();
        return;
      } else {
        if (this.isCaughtUp) this.source.onCaughtUp();
        await this.#news.wait();
      }
    }
  }

  /** There may be something to send. */
  poke(): void {
    this.#news.fire();
  }

  /** Throws `STET_ERR_BAD_REQUEST` for credit that was not asked for or is too much. */
  addCredit(tokenCount: number): void {
    const { maxCreditTokens } = protocolLimits;
    if (this.#credit === Number.POSITIVE_INFINITY)
      throw new StetError('STET_ERR_BAD_REQUEST', 'the stream was asked for without credit, so it needs none');
    if (this.#credit + tokenCount > maxCreditTokens)
      throw new StetError('STET_ERR_BAD_REQUEST', `n: at most ${maxCreditTokens} tokens of credit may be open`);
    this.#credit += tokenCount;
    this.poke();
  }

  /** Candidates after a gap are left out: those before them were shown to a socket that is lost. */
  showCandidates(event: EventOf<'provisional'>): void {
    if (event.from !== this.#known) return;
    this.#known += event.tokens.length;
    this.#send(bodyOf(event));
  }

  withdraw(event: EventOf<'rollback'>): void {
    if (event.to >= this.#known) return;
    this.#known = event.to;
    this.#send(bodyOf(event));
  }

  /** Ends the id with `error` at once, whatever waits to be sent. */
  fail(error: StetError): void {
    this.#end(bodyOf(errorFrame({}, error)));
  }

  /** The socket is gone: sends nothing more. */
  close(): void {
    this.#closed.abort();
    this.poke();
  }

  #sendCommit(commit: KeptCommit): void {
    const tokenCount = commit.to - commit.from;
    this.#credit -= tokenCount;
    this.#sent = commit.to;
    this.#known = Math.max(this.#known, commit.to);
    this.#send(commit.body);
    this.source.onSent(commit.to);
  }

  #end(body: string): void {
    this.close();
    this.#send(body);
    this.attachment.onEnd();
  }

  #send(body: string): void {
    this.attachment.outbox.sendText(frameText(this.attachment.id, this.#seq++, body));
  }
}
