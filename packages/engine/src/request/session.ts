import { assert, assertNever, StetError } from '@stet/backend';
import { hashPrompt } from '@stet/backend/hash-chain';
import type { SequenceEvent, SequenceStats } from '@stet/scheduler';
import type { GenerateEvent, Receipt } from '../api.js';
import { EventStream } from './event-stream.js';
import { RequestOutput } from './output.js';
import type { PreparedRequest } from './prepare-request.js';

/** What a session may ask of the engine that runs it. */
export interface SessionHost {
  readonly fingerprint: string;
  readonly numerics: string;
  readonly level: Receipt['level'];
  readonly maxUnreadTokens: number;
  tokenText(token: number): string;
  pause(id: string): void;
  resume(id: string): void;
  cancel(id: string, error: StetError): void;
}

/** One accepted request: turns the scheduler's events into those of its stream, and the reader's pace into pauses. */
export class RequestSession {
  readonly stream: EventStream;
  readonly #host: SessionHost;
  readonly #request: PreparedRequest;
  readonly #output: RequestOutput;
  #pace: 'running' | 'paused' | 'ended' = 'running';

  constructor(request: PreparedRequest, host: SessionHost) {
    this.#host = host;
    this.#request = request;
    this.#output = new RequestOutput(request.machine, (token) => host.tokenText(token));
    this.stream = new EventStream({
      onRead: () => this.#paceReader(),
      onCancel: () => host.cancel(this.id, new StetError('STET_ERR_ABORTED', 'the reader left the stream')),
    });
    this.stream.pending.accept({
      type: 'accepted',
      fingerprint: host.fingerprint,
      seed: request.sequence.seed,
      promptTokens: request.sequence.promptTokens.length,
      params: request.params,
    });
  }

  get id(): string {
    return this.#request.sequence.id;
  }

  /** All events of one step, so that what ends together is read together. */
  apply(events: readonly SequenceEvent[]): void {
    const last = events.at(-1);
    const completes = last?.kind === 'finish' && (last.reason === 'stop' || last.reason === 'length');
    const lastCommit = events.findLast((event) => event.kind === 'commit');
    assert(!completes || lastCommit, 'an output is complete with its last commit');
    for (const event of events) this.#applyOne(event, completes && event === lastCommit);
    this.stream.flush();
    this.#paceReader();
  }

  /** Ends the stream with `error` at once; the sequence is gone. */
  fail(error: StetError): void {
    this.#pace = 'ended';
    this.stream.fail(error);
  }

  #applyOne(event: SequenceEvent, ends: boolean): void {
    const { pending } = this.stream;
    switch (event.kind) {
      case 'commit':
        this.#output.commit(event, ends, pending);
        break;
      case 'promptLogprobs':
        this.#output.notePrompt(event);
        break;
      case 'provisional':
        this.#output.provisional(event, pending);
        break;
      case 'rollback':
        this.#output.rollback(event.to, pending);
        break;
      case 'finish':
        this.#finish(event);
        break;
      default:
        assertNever(event);
    }
  }

  #finish(event: Extract<SequenceEvent, { kind: 'finish' }>): void {
    this.#pace = 'ended';
    switch (event.reason) {
      case 'stop':
      case 'length':
        this.stream.pending.finish(this.#doneEvent(event.reason, event.stats));
        this.stream.end();
        break;
      case 'error':
        this.stream.end(event.error ?? new StetError('STET_ERR_BACKEND_FAILED', 'the step failed'));
        break;
      case 'aborted':
        this.stream.end(new StetError('STET_ERR_ABORTED', 'the request was aborted'));
        break;
      default:
        assertNever(event.reason);
    }
  }

  #doneEvent(finishReason: 'stop' | 'length', stats: SequenceStats): Extract<GenerateEvent, { type: 'done' }> {
    const { promptTokens, outputTokens, ...rest } = stats;
    assert(outputTokens === this.#output.tokenCount, 'the scheduler and the stream count the same tokens');
    return {
      type: 'done',
      finishReason,
      usage: { promptTokens, completionTokens: outputTokens, totalTokens: promptTokens + outputTokens },
      stats: rest,
      ...(this.#request.params.deterministic && { receipt: this.#receipt() }),
    };
  }

  #receipt(): Receipt {
    const { sequence } = this.#request;
    return {
      fingerprint: this.#host.fingerprint,
      numerics: this.#host.numerics,
      level: this.#host.level,
      seed: sequence.seed,
      promptHash: hashPrompt(sequence.promptTokens),
      outputHash: this.#output.hash,
      outputTokens: this.#output.tokenCount,
    };
  }

  /** Pauses the sequence while too much is unread, and lets it go on when it is read. */
  #paceReader(): void {
    const { unreadTokens } = this.stream.pending;
    if (this.#pace === 'running' && unreadTokens >= this.#host.maxUnreadTokens) {
      this.#pace = 'paused';
      this.#host.pause(this.id);
    } else if (this.#pace === 'paused' && unreadTokens < this.#host.maxUnreadTokens) {
      this.#pace = 'running';
      this.#host.resume(this.id);
    }
  }
}
