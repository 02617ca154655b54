/** What one event takes out of a bucket; a millisecond puts in as many as a minute may have events. */
const COST = 60_000;

/** Rounding must not let a wait end just before the event that it was for. */
const ROUNDING = 1e-3;

/** Lets `perMinute` events of a minute pass, a whole minute's worth at once at most. Time is given, in milliseconds. */
export class TokenBucket {
  #level: number;
  #filledAtMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.#level = perMinute * COST;
    this.#filledAtMs = nowMs;
  }

  /** Takes one and returns 0, or takes none and returns the milliseconds until there is one. */
  take(perMinute: number, nowMs: number): number {
    const elapsedMs = Math.max(0, nowMs - this.#filledAtMs);
    this.#level = Math.min(perMinute * COST, this.#level + elapsedMs * perMinute);
    this.#filledAtMs = nowMs;
    if (this.#level < COST - ROUNDING) return Math.ceil((COST - this.#level) / perMinute);
    this.#level = Math.max(0, this.#level - COST);
    return 0;
  }
}
