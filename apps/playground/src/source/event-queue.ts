import type { GenerateEvent } from '@stet/engine';

/** Events of one request between a sender that pushes and a reader that pulls, in order and unmerged. */
export class EventQueue implements AsyncIterableIterator<GenerateEvent> {
  readonly #onLeave: () => void;
  readonly #events: GenerateEvent[] = [];
  #end: { readonly error?: Error } | undefined;
  #wake: (() => void) | undefined;

  /** `onLeave`: the reader left before the end. */
  constructor(onLeave: () => void) {
    this.#onLeave = onLeave;
  }

  push(event: GenerateEvent): void {
    if (!this.#end) this.#events.push(event);
    this.#wake?.();
  }

  /** With `error`, it is thrown once the events before it are read. */
  end(error?: Error): void {
    this.#end ??= error ? { error } : {};
    this.#wake?.();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<GenerateEvent>> {
    for (;;) {
      const event = this.#events.shift();
      if (event) return { done: false, value: event };
      if (this.#end) {
        const { error } = this.#end;
        this.#end = {};
        if (error) throw error;
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async return(): Promise<IteratorResult<GenerateEvent>> {
    if (!this.#end) this.#onLeave();
    this.#end = {};
    this.#events.length = 0;
    return { done: true, value: undefined };
  }
}
