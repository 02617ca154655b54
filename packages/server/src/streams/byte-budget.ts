/** What all buffers of a server hold together. It only counts: who is over it keeps less or waits. */
export class ByteBudget {
  #usedBytes = 0;

  constructor(readonly limitBytes: number) {}

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get isSpent(): boolean {
    return this.#usedBytes >= this.limitBytes;
  }

  /** `bytes` may be negative: they are given back. */
  add(bytes: number): void {
    this.#usedBytes += bytes;
  }
}
