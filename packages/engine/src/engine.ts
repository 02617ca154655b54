import { type Backend, StetError } from '@stet/backend';
import type { Scheduler, SequenceEvent } from '@stet/scheduler';
import type { Engine, EngineInfo, EngineStats, GenerateEvent, GenerateRequest } from './api.js';
import type { EngineLimits } from './limits.js';
import { ChatCompletions } from './openai/chat-completions.js';
import type { CompletionHost } from './openai/chunk-stream.js';
import { TextCompletions } from './openai/text-completions.js';
import { EventStream, toStetError } from './request/event-stream.js';
import type { ModelText } from './request/model-text.js';
import { prepareRequest } from './request/prepare-request.js';
import { RequestSession, type SessionHost } from './request/session.js';
import { StepLoop } from './step-loop.js';

export interface EngineParts {
  readonly info: EngineInfo;
  readonly backend: Backend;
  readonly scheduler: Scheduler;
  readonly text: ModelText;
  readonly limits: EngineLimits;
  /** Milliseconds, never going back. */
  readonly clock: () => number;
  readonly drawSeed: () => number;
  /** Frees what the engine took over besides the backend. */
  readonly release: () => Promise<void>;
}

/** An engine with OpenAI's two endpoints as functions. */
export interface StetEngine extends Engine {
  readonly chat: { readonly completions: ChatCompletions };
  readonly completions: TextCompletions;
}

/** One model on one backend behind one scheduler: requests go in as text or ids, streams of events come out. */
export class CoreEngine implements StetEngine {
  readonly info: EngineInfo;
  readonly chat: { readonly completions: ChatCompletions };
  readonly completions: TextCompletions;
  readonly #parts: EngineParts;
  readonly #loop: StepLoop;
  readonly #host: SessionHost;
  readonly #sessions = new Map<string, OpenSession>();
  #requestCount = 0;
  /** Why no request is taken any more. */
  #refusal: StetError | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: EngineParts) {
    const { scheduler, backend, clock, info, limits, text } = parts;
    this.info = info;
    this.#parts = parts;
    this.#loop = new StepLoop({
      scheduler,
      backend,
      clock,
      onEvents: (events) => this.#dispatch(events),
      onBroken: (error) => this.#giveUp(error),
    });
    this.#host = {
      fingerprint: info.fingerprint,
      numerics: backend.info.numerics ?? 'none',
      level: info.deterministic === 'portable' ? 'portable' : 'seeded',
      maxUnreadTokens: limits.maxUnreadTokens,
      tokenText: (token) => text.tokenText(token),
      pause: (id) => scheduler.pause(id),
      resume: (id) => {
        scheduler.resume(id);
        this.#loop.wake();
      },
      cancel: (id, error) => this.#cancel(id, error),
    };
    const completionHost: CompletionHost = {
      info,
      generate: (request, { signal, defaultMaxTokens }) => this.#generate(request, signal, defaultMaxTokens),
      tokenBytes: (token) => text.tokenBytes(token),
    };
    this.chat = { completions: new ChatCompletions(completionHost) };
    this.completions = new TextCompletions(completionHost);
  }

  generate(
    request: GenerateRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<GenerateEvent> {
    return this.#generate(request, options.signal, this.#parts.limits.defaultMaxTokens);
  }

  #generate(request: GenerateRequest, signal: AbortSignal | undefined, defaultMaxTokens: number): EventStream {
    try {
      if (this.#refusal) throw this.#refusal;
      if (signal?.aborted) throw abortedBy(signal);
      return this.#start(request, signal, defaultMaxTokens).stream;
    } catch (error) {
      return refusedStream(toStetError(error));
    }
  }

  stats(): EngineStats {
    const { kv, ...totals } = this.#parts.scheduler.stats();
    const { free, cached, held, total } = kv;
    return { ...totals, blocks: { free, cached, held, total } };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #start(request: GenerateRequest, signal: AbortSignal | undefined, defaultMaxTokens: number): RequestSession {
    const { scheduler, clock, text, limits, backend, drawSeed } = this.#parts;
    const { vocabSize, contextLength } = this.info;
    const id = `g${this.#requestCount++}`;
    const context = { text, limits, vocabSize, contextLength, backend: backend.info, drawSeed, defaultMaxTokens };
    const prepared = prepareRequest(id, request, context);
    const session = new RequestSession(prepared, this.#host);
    scheduler.add(prepared.sequence, clock());
    const onAbort = () => this.#cancel(id, abortedBy(signal));
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#sessions.set(id, { session, detach: () => signal?.removeEventListener('abort', onAbort) });
    this.#loop.wake();
    return session;
  }

  #dispatch(events: readonly SequenceEvent[]): void {
    for (const [id, own] of eventsBySequence(events)) {
      const open = this.#sessions.get(id);
      if (!open) continue;
      try {
        open.session.apply(own);
        if (own.at(-1)?.kind === 'finish') this.#forget(id);
      } catch (error) {
        this.#cancel(id, toStetError(error));
      }
    }
  }

  /** Takes a request out at once, wherever it is; nothing happens if it has ended. */
  #cancel(id: string, error: StetError): void {
    const session = this.#forget(id);
    if (!session) return;
    this.#parts.scheduler.abort(id, this.#parts.clock());
    session.fail(error);
  }

  #forget(id: string): RequestSession | undefined {
    const open = this.#sessions.get(id);
    this.#sessions.delete(id);
    open?.detach();
    return open?.session;
  }

  /** The scheduler cannot be trusted any more, so it is not asked to abort anything. */
  #giveUp(error: StetError): void {
    this.#refusal ??= error;
    for (const id of [...this.#sessions.keys()]) this.#forget(id)?.fail(error);
  }

  async #close(): Promise<void> {
    const error = new StetError('STET_ERR_ENGINE_CLOSED', 'the engine was closed');
    this.#refusal = error;
    for (const id of [...this.#sessions.keys()]) this.#cancel(id, error);
    await this.#loop.stop();
    try {
      await this.#parts.backend.close();
    } finally {
      await this.#parts.release();
    }
  }
}

interface OpenSession {
  readonly session: RequestSession;
  /** Stops listening to the caller's signal. */
  detach(): void;
}

function eventsBySequence(events: readonly SequenceEvent[]): Map<string, SequenceEvent[]> {
  const groups = new Map<string, SequenceEvent[]>();
  for (const event of events) {
    const group = groups.get(event.id);
    if (group) group.push(event);
    else groups.set(event.id, [event]);
  }
  return groups;
}

function abortedBy(signal: AbortSignal | undefined): StetError {
  return new StetError('STET_ERR_ABORTED', 'the request was aborted by its signal', { cause: signal?.reason });
}

/** A stream whose first read throws. */
function refusedStream(error: StetError): EventStream {
  const stream = new EventStream({ onRead: () => {}, onCancel: () => {} });
  stream.end(error);
  return stream;
}
