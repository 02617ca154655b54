import type { GenerateEvent } from '../api.js';

/** An event of one of a request's choices. */
export interface ChoiceEvent {
  readonly index: number;
  readonly event: GenerateEvent;
}

type Outcome =
  | { readonly kind: 'read'; readonly index: number; readonly result: IteratorResult<GenerateEvent> }
  | { readonly kind: 'failed'; readonly error: unknown };

/**
 * The streams of a request's choices as one: events in the order in which they can be read, each stream at most one
 * event ahead. A failure of one ends them all; leaving cancels all.
 */
export class ChoiceStream implements AsyncIterableIterator<ChoiceEvent> {
  readonly #streams: readonly AsyncIterator<GenerateEvent>[];
  /** Streams that are not being read; to begin with, all. */
  readonly #idle: number[];
  readonly #outcomes: Outcome[] = [];
  #openCount: number;
  #wake: () => void = () => {};

  constructor(streams: readonly AsyncIterator<GenerateEvent>[]) {
    this.#streams = streams;
    this.#idle = streams.map((_, index) => index);
    this.#openCount = streams.length;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** One call at a time. */
  async next(): Promise<IteratorResult<ChoiceEvent>> {
    for (const index of this.#idle.splice(0)) this.#read(index);
    while (this.#openCount > 0) {
      const outcome = this.#outcomes.shift();
      if (!outcome) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else if (outcome.kind === 'failed') {
        await this.return();
        throw outcome.error;
      } else if (outcome.result.done) {
        this.#openCount--;
      } else {
        this.#idle.push(outcome.index);
        return { done: false, value: { index: outcome.index, event: outcome.result.value } };
      }
    }
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<ChoiceEvent>> {
    this.#openCount = 0;
    this.#wake();
    await Promise.all(this.#streams.map((stream) => stream.return?.()));
    return { done: true, value: undefined };
  }

  #read(index: number): void {
    const note = (outcome: Outcome) => {
      this.#outcomes.push(outcome);
      this.#wake();
    };
    this.#streams[index]!.next().then(
      (result) => note({ kind: 'read', index, result }),
      (error: unknown) => note({ kind: 'failed', error }),
    );
  }
}
