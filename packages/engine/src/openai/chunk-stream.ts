import { isStetError, StetError } from '@stet/backend';
import type { GenerateEvent } from '../api.js';
import type { TranslatedParams } from './params.js';

type Accepted = Extract<GenerateEvent, { type: 'accepted' }>;

/** What this layer needs of an engine. */
export interface CompletionHost {
  readonly info: { readonly model: string };
  generate(
    request: TranslatedParams['request'],
    options: { readonly signal?: AbortSignal; readonly defaultMaxTokens: number },
  ): AsyncIterableIterator<GenerateEvent>;
  /** Bytes that a token spells. */
  tokenBytes(token: number): Uint8Array;
}

/** Sends a request and waits until it is accepted, so that a refusal rejects before any answer has begun. */
export async function openRequest(
  host: CompletionHost,
  params: TranslatedParams,
  defaultMaxTokens: number,
  signal: AbortSignal | undefined,
): Promise<{ readonly accepted: Accepted; readonly events: AsyncIterableIterator<GenerateEvent> }> {
  const events = host.generate(params.request, { ...(signal && { signal }), defaultMaxTokens });
  try {
    const first = await events.next();
    if (!first.done && first.value.type === 'accepted') return { accepted: first.value, events };
  } catch (error) {
    throw inCallersWords(error, params.usedNames);
  }
  throw new Error('assertion failed: the first event of a stream is accepted');
}

/** Messages begin with the engine's name of a field; the caller knows it by another. */
function inCallersWords(error: unknown, usedNames: ReadonlyMap<string, string>): unknown {
  if (!isStetError(error) || error.code !== 'STET_ERR_BAD_REQUEST') return error;
  const field = /^\w+/.exec(error.message)?.[0] ?? '';
  const name = usedNames.get(field);
  if (!name || name === field) return error;
  return new StetError(error.code, name + error.message.slice(field.length), { cause: error });
}

/**
 * Chunks of a stream: each event becomes some. Not a generator: one that never started would not pass on `return`, and
 * the request behind it would go on.
 */
export class ChunkStream<Chunk> implements AsyncIterableIterator<Chunk> {
  readonly #events: AsyncIterableIterator<GenerateEvent>;
  readonly #toChunks: (event: GenerateEvent) => readonly Chunk[];
  readonly #queue: Chunk[];
  #lastPull: Promise<unknown> = Promise.resolve();

  constructor(
    events: AsyncIterableIterator<GenerateEvent>,
    first: readonly Chunk[],
    toChunks: (event: GenerateEvent) => readonly Chunk[],
  ) {
    this.#events = events;
    this.#queue = [...first];
    this.#toChunks = toChunks;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Chunk>> {
    const pull = this.#lastPull.then(() => this.#pull());
    this.#lastPull = pull.catch(() => {});
    return pull;
  }

  async return(): Promise<IteratorResult<Chunk>> {
    this.#queue.length = 0;
    await this.#events.return?.();
    return { done: true, value: undefined };
  }

  async #pull(): Promise<IteratorResult<Chunk>> {
    for (;;) {
      const chunk = this.#queue.shift();
      if (chunk) return { done: false, value: chunk };
      const { done, value } = await this.#events.next();
      if (done) return { done: true, value: undefined };
      this.#queue.push(...this.#toChunks(value));
    }
  }
}
