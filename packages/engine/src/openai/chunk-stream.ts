import type { ChoiceEvent } from './choice-stream.js';

/**
 * Chunks of a stream: each event becomes some. Not a generator: one that never started would not pass on `return`, and
 * the request behind it would go on.
 */
export class ChunkStream<Chunk> implements AsyncIterableIterator<Chunk> {
  readonly #events: AsyncIterableIterator<ChoiceEvent>;
  readonly #toChunks: (event: ChoiceEvent) => readonly Chunk[];
  readonly #queue: Chunk[];
  #lastPull: Promise<unknown> = Promise.resolve();

  constructor(
    events: AsyncIterableIterator<ChoiceEvent>,
    first: readonly Chunk[],
    toChunks: (event: ChoiceEvent) => readonly Chunk[],
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
