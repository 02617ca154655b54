import { assert, type BackendInfo, StetError } from '@stet/backend';
import type { Scheduler, SequenceEvent } from '@stet/scheduler';
import type {
  Engine,
  EngineHealth,
  EngineInfo,
  EngineObserver,
  EngineStats,
  GenerateEvents,
  GenerateOptions,
  GenerateRequest,
  ObservableEngine,
} from './api.js';
import type { BackendKeeper } from './backend-keeper.js';
import { deriveSeed } from './derive-seed.js';
import type { EngineLimits } from './limits.js';
import { Observers, type RequestWatch } from './observation.js';
import { ChatCompletions } from './openai/chat-completions.js';
import type { CompletionHost } from './openai/choices.js';
import { TextCompletions } from './openai/text-completions.js';
import { EventStream, toStetError } from './request/event-stream.js';
import type { ModelText } from './request/model-text.js';
import { type PreparedRequest, prepareRequest } from './request/prepare-request.js';
import { promptPieces } from './request/prompt-pieces.js';
import { RequestSession, type SessionHost } from './request/session.js';
import { StepLoop } from './step-loop.js';

export interface EngineParts {
  readonly keeper: BackendKeeper;
  /** The engine on such a backend. */
  readonly describe: (info: BackendInfo) => EngineInfo;
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
export interface StetEngine extends Engine, ObservableEngine {
  readonly chat: { readonly completions: ChatCompletions };
  readonly completions: TextCompletions;
}

/** One model on one backend behind one scheduler: requests go in as text or ids, streams of events come out. */
export class CoreEngine implements StetEngine {
  readonly chat: { readonly completions: ChatCompletions };
  readonly completions: TextCompletions;
  readonly #parts: EngineParts;
  readonly #loop: StepLoop;
  readonly #host: SessionHost;
  readonly #sessions = new Map<string, OpenSession>();
  readonly #observers = new Observers();
  #isRecovering = false;
  #info: EngineInfo;
  #requestCount = 0;
  /** Why no request is taken any more. */
  #refusal: StetError | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: EngineParts) {
    const { scheduler, keeper, clock, describe, limits, text } = parts;
    const info = describe(keeper.backend.info);
    this.#info = info;
    this.#parts = parts;
    this.#loop = new StepLoop({
      scheduler,
      backend: () => keeper.backend,
      clock,
      onEvents: (events) => this.#dispatch(events),
      onStep: (step) => this.#observers.stepped(step),
      recover: (lost) => this.#recover(lost),
      onBroken: (error) => this.#giveUp(error),
    });
    this.#host = {
      fingerprint: info.fingerprint,
      numerics: info.numerics,
      level: info.guarantee,
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
      maxChoices: limits.maxChoices,
      maxPrompts: limits.maxPrompts,
      generateChoices: (request, choiceCount, defaultMaxTokens, options) =>
        this.#generate(request, choiceCount, defaultMaxTokens, options),
      tokenBytes: (token) => text.tokenBytes(token),
      promptPieces: (request) => promptPieces(request, text),
    };
    this.chat = { completions: new ChatCompletions(completionHost) };
    this.completions = new TextCompletions(completionHost);
  }

  get info(): EngineInfo {
    return this.#info;
  }

  get health(): EngineHealth {
    if (this.#refusal) return { state: 'gone', error: this.#refusal };
    return { state: this.#isRecovering ? 'recreating' : 'ready' };
  }

  observe(observer: EngineObserver): () => void {
    return this.#observers.add(observer);
  }

  generate(request: GenerateRequest, options: GenerateOptions = {}): GenerateEvents {
    const [stream] = this.#generate(request, 1, this.#parts.limits.defaultMaxTokens, options);
    assert(stream, 'a request has a stream');
    return stream;
  }

  /** A stream for each choice, or one that throws why the request is refused. */
  #generate(
    request: GenerateRequest,
    choiceCount: number,
    defaultMaxTokens: number,
    { signal, cacheScope }: GenerateOptions,
  ): EventStream[] {
    try {
      if (this.#refusal) throw this.#refusal;
      if (signal?.aborted) throw abortedBy(signal);
      const prepared = this.#prepare(request, defaultMaxTokens, cacheScope);
      const sessions = this.#open(choicesOf(prepared, choiceCount), signal);
      this.#loop.wake();
      return sessions.map((session) => session.stream);
    } catch (error) {
      const refusal = toStetError(error);
      this.#observers.refused(refusal);
      return [refusedStream(refusal)];
    }
  }

  stats(): EngineStats {
    const { kv, ...totals } = this.#parts.scheduler.stats();
    const { free, cached, held, total } = kv;
    return { ...totals, recreations: this.#parts.keeper.recreations, blocks: { free, cached, held, total } };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #prepare(request: GenerateRequest, defaultMaxTokens: number, cacheScope: string | undefined): PreparedRequest {
    const { text, limits, keeper, drawSeed } = this.#parts;
    const { vocabSize, contextLength } = this.info;
    const id = `g${this.#requestCount++}`;
    const backend = keeper.backend.info;
    const context = { text, limits, vocabSize, contextLength, backend, drawSeed, defaultMaxTokens, cacheScope };
    return prepareRequest(id, request, context);
  }

  /** All of them or, if the scheduler refuses one, none. One listener serves them all. */
  #open(choices: readonly PreparedRequest[], signal: AbortSignal | undefined): RequestSession[] {
    const { scheduler, clock } = this.#parts;
    const sessions: RequestSession[] = [];
    const cancelAll = (error: StetError) => {
      for (const { id } of sessions) this.#cancel(id, error);
    };
    const onAbort = () => cancelAll(abortedBy(signal));
    let openCount = choices.length;
    const detach = () => {
      if (--openCount === 0) signal?.removeEventListener('abort', onAbort);
    };
    try {
      for (const prepared of choices) {
        const session = new RequestSession(prepared, this.#host);
        const nowMs = clock();
        scheduler.add(prepared.sequence, nowMs);
        const watch = this.#observers.watch(prepared.params.deterministic, nowMs);
        this.#sessions.set(session.id, { session, watch, detach });
        sessions.push(session);
      }
    } catch (error) {
      cancelAll(toStetError(error));
      throw error;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    return sessions;
  }

  #dispatch(events: readonly SequenceEvent[]): void {
    if (events.some((event) => event.kind === 'commit')) this.#parts.keeper.noteCommit();
    const nowMs = this.#parts.clock();
    for (const [id, own] of eventsBySequence(events)) {
      const open = this.#sessions.get(id);
      if (!open) continue;
      try {
        open.session.apply(own);
        tell(open.watch, own, nowMs);
        if (own.at(-1)?.kind === 'finish') this.#forget(id);
      } catch (error) {
        this.#cancel(id, toStetError(error));
      }
    }
  }

  /** Takes a request out at once, wherever it is; nothing happens if it has ended. */
  #cancel(id: string, error: StetError): void {
    const open = this.#forget(id);
    if (!open) return;
    const last = this.#parts.scheduler.abort(id, this.#parts.clock()).at(-1);
    open.watch.ended(outcomeOf(error), last?.kind === 'finish' ? last.stats : undefined);
    open.session.fail(error);
  }

  #forget(id: string): OpenSession | undefined {
    const open = this.#sessions.get(id);
    this.#sessions.delete(id);
    open?.detach();
    return open;
  }

  /** Requests wait while a backend is made in place of the lost one. Where none can be, they end with the reason, and so do later ones. */
  async #recover(lost: StetError): Promise<'recovered' | 'gone'> {
    const { keeper, describe, scheduler, clock } = this.#parts;
    this.#isRecovering = true;
    try {
      await keeper.replace(lost);
    } catch (error) {
      this.#refusal ??= toStetError(error);
      this.#dispatch(scheduler.failAll(this.#refusal, clock()));
      return 'gone';
    } finally {
      this.#isRecovering = false;
    }
    this.#info = describe(keeper.backend.info);
    return 'recovered';
  }

  /** The scheduler cannot be trusted any more, so it is not asked to abort anything. */
  #giveUp(error: StetError): void {
    this.#refusal ??= error;
    for (const id of [...this.#sessions.keys()]) {
      const open = this.#forget(id);
      open?.watch.ended('error');
      open?.session.fail(error);
    }
  }

  async #close(): Promise<void> {
    const error = new StetError('STET_ERR_ENGINE_CLOSED', 'the engine was closed');
    this.#refusal = error;
    for (const id of [...this.#sessions.keys()]) this.#cancel(id, error);
    const { keeper } = this.#parts;
    keeper.stop(error);
    await this.#loop.stop();
    try {
      await keeper.close();
    } finally {
      await this.#parts.release();
    }
  }
}

interface OpenSession {
  readonly session: RequestSession;
  readonly watch: RequestWatch;
  /** Stops listening to the caller's signal, once no choice of the request is open. */
  detach(): void;
}

/**
 * The choices of a request: choice 0 is the request itself; the others have seeds of their own and wait for its
 * prefill, so that they find the prompt's blocks in the prefix cache.
 */
function choicesOf(prepared: PreparedRequest, choiceCount: number): PreparedRequest[] {
  // Choice 0 tells of the prompt for all.
  const { promptLogprobs: _told, ...shared } = prepared.sequence;
  const { id, seed } = shared;
  const others = Array.from({ length: choiceCount - 1 }, (_, i): PreparedRequest => {
    const choice = i + 1;
    const sequence = { ...shared, id: `${id}.${choice}`, seed: deriveSeed(seed, choice), after: id };
    return { ...prepared, sequence };
  });
  return [prepared, ...others];
}

/** Tells a request's observers what its events say. */
function tell(watch: RequestWatch, events: readonly SequenceEvent[], nowMs: number): void {
  for (const event of events) {
    if (event.kind === 'commit') watch.committed(event.tokens.length, nowMs);
    else if (event.kind === 'finish') watch.ended(event.reason, event.stats);
  }
}

/** Who gave up on a request that did not end by itself: its caller, or we. */
function outcomeOf({ code }: StetError): 'aborted' | 'error' {
  return code === 'STET_ERR_ABORTED' || code === 'STET_ERR_ENGINE_CLOSED' ? 'aborted' : 'error';
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
