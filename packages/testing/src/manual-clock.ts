import { assert } from '@stet/backend';

/** A clock that moves when a test says so. */
export interface ManualClock {
  /** Milliseconds; pass it where code takes a clock. */
  readonly now: () => number;
  /** Moves the clock on and runs what was due, in order of time. */
  advance(ms: number): void;
  /** Calls back once the clock has moved on by `ms`; the result cancels. */
  after(ms: number, run: () => void): () => void;
}

export function manualClock(startMs = 0): ManualClock {
  let nowMs = startMs;
  let timers: { atMs: number; run: () => void }[] = [];
  return {
    now: () => nowMs,
    advance(ms) {
      assert(ms >= 0, 'a clock moves forward');
      const endMs = nowMs + ms;
      for (;;) {
        const next = earliest(timers, endMs);
        if (!next) break;
        timers = timers.filter((timer) => timer !== next);
        nowMs = next.atMs;
        next.run();
      }
      nowMs = endMs;
    },
    after(ms, run) {
      const timer = { atMs: nowMs + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
  };
}

/** The first timer due at or before `endMs`; among equals the one set first. */
function earliest<T extends { atMs: number }>(timers: readonly T[], endMs: number): T | undefined {
  let first: T | undefined;
  for (const timer of timers) {
    if (timer.atMs <= endMs && (!first || timer.atMs < first.atMs)) first = timer;
  }
  return first;
}
