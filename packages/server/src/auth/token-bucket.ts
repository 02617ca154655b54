/** Lets `perMinute` events of a minute pass, a whole minute's worth at once at most. Time is given, in milliseconds. */
export class TokenBucket {
  #level: number;
  #filledAt: number;

  constructor(perMinute: number, nowMs: number) {
    this.#level = perMinute;
    this.#filledAt = nowMs;
  }

  /** Takes one and returns 0, or takes none and returns the milliseconds until there is one. */
  take(perMinute: number, nowMs: number): number {
    const perMs = perMinute / 60_000;
    const elapsedMs = Math.max(0, nowMs - this.#filledAt);
    this.#level = Math.min(perMinute, this.#level + elapsedMs * perMs);
    this.#filledAt = nowMs;
    if (this.#level < 1) return Math.ceil((1 - this.#level) / perMs);
    this.#level--;
    return 0;
  }
}
