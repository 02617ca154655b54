import { StetError } from '@stet/backend';
import type { Engine, EngineInfo, EngineStats, GenerateEvents, GenerateRequest, ResolvedParams } from '@stet/engine';
import { ScriptedSequence } from './scripted-sequence.js';

export interface ScriptedEngineOptions {
  readonly contextLength?: number;
  readonly maxRunning?: number;
  /** Unread tokens at which a sequence pauses. */
  readonly maxUnreadTokens?: number;
  /** Tokens that a deterministic sequence commits at once. */
  readonly windowTokens?: number;
  readonly textOf?: (token: number) => string;
  /** What a request throws, and after how many of its tokens; undefined when it runs to its end. */
  readonly failure?: (
    request: GenerateRequest,
  ) => { readonly afterTokens: number; readonly error: unknown } | undefined;
}

/**
 * An engine without a model: the tokens of a request are a function of its prompt. All running sequences advance by one
 * token in each turn of the event loop, so streams interleave as those of a batch do.
 */
export class ScriptedEngine implements Engine {
  readonly info: EngineInfo;
  readonly #running = new Set<ScriptedSequence>();
  readonly #options: Required<ScriptedEngineOptions>;
  #steps = 0;
  #committedTokens = 0;
  #turn: NodeJS.Immediate | undefined;
  #closed = false;

  constructor(options: ScriptedEngineOptions = {}) {
    this.#options = {
      contextLength: 1024,
      maxRunning: 4096,
      maxUnreadTokens: 64,
      windowTokens: 4,
      textOf: (token) => `w${token} `,
      failure: () => undefined,
      ...options,
    };
    this.info = {
      model: 'scripted',
      backend: 'none',
      device: 'none',
      fingerprint: 'scripted-1',
      contextLength: this.#options.contextLength,
      vocabSize: 1000,
      chatTemplate: 'none',
      deterministic: 'portable',
      guarantee: 'portable',
      numerics: 'scripted',
      policy: 'direct',
      memory: { weightBytes: 0, kvBytes: 0, scratchBytes: 0 },
    };
  }

  generate(request: GenerateRequest, options: { signal?: AbortSignal } = {}): GenerateEvents {
    if (this.#closed) throw new StetError('STET_ERR_ENGINE_CLOSED', 'the engine is closed');
    const prompt = promptOf(request);
    const params = resolve(request, this.#options.contextLength - prompt.length);
    if (prompt.length + params.maxTokens > this.#options.contextLength)
      throw new StetError('STET_ERR_CONTEXT_LENGTH', `${prompt.length} prompt tokens and ${params.maxTokens} more`);
    if (this.#running.size >= this.#options.maxRunning) throw new StetError('STET_ERR_QUEUE_FULL', 'the queue is full');
    const sequence = new ScriptedSequence({
      prompt,
      params,
      seed: request.seed ?? 7,
      fingerprint: this.info.fingerprint,
      maxUnreadTokens: this.#options.maxUnreadTokens,
      windowTokens: this.#options.windowTokens,
      textOf: this.#options.textOf,
      failure: this.#options.failure(request),
      onEnd: () => this.#running.delete(sequence),
      onRead: () => this.#schedule(),
    });
    this.#running.add(sequence);
    options.signal?.addEventListener('abort', () => sequence.abort(), { once: true });
    if (options.signal?.aborted) sequence.abort();
    this.#schedule();
    return sequence;
  }

  stats(): EngineStats {
    const held = this.#running.size;
    return {
      running: held,
      waiting: 0,
      steps: this.#steps,
      fastRows: this.#committedTokens,
      canonicalRows: 0,
      windows: 0,
      rollbacks: 0,
      recomputedTokens: 0,
      draftedTokens: 0,
      acceptedTokens: 0,
      preemptions: 0,
      recreations: 0,
      committedTokens: this.#committedTokens,
      blocks: { free: 4096 - held, cached: 0, held, total: 4096 },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const sequence of [...this.#running]) sequence.abort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #schedule(): void {
    this.#turn ??= setImmediate(() => {
      this.#turn = undefined;
      this.#steps++;
      const runnable = [...this.#running].filter((sequence) => !sequence.paused);
      for (const sequence of runnable) sequence.step();
      this.#committedTokens += runnable.length;
      if (runnable.length > 0) this.#schedule();
    });
  }
}

function promptOf({ prompt, promptTokens, messages }: GenerateRequest): readonly number[] {
  if (promptTokens !== undefined) return promptTokens;
  const text = prompt ?? messages!.map(({ content }) => content).join(' ');
  return text
    .split(' ')
    .map((word) => [...word].reduce((sum, character) => sum * 31 + character.charCodeAt(0), 0) % 997);
}

function resolve(request: GenerateRequest, room: number): ResolvedParams {
  return {
    maxTokens: request.maxTokens ?? Math.max(1, Math.min(256, room)),
    deterministic: request.deterministic ?? false,
    temperature: request.temperature ?? 0,
    topK: request.topK ?? 0,
    topP: request.topP ?? 1,
    minP: request.minP ?? 0,
    frequencyPenalty: request.frequencyPenalty ?? 0,
    presencePenalty: request.presencePenalty ?? 0,
    repetitionPenalty: request.repetitionPenalty ?? 1,
    logitBias: request.logitBias ?? {},
    stop: typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []),
    ...(request.logprobs !== undefined && { logprobs: request.logprobs }),
    provisional: request.provisional ?? false,
    priority: request.priority ?? 0,
    ignoreEos: request.ignoreEos ?? false,
  };
}
