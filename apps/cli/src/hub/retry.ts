import { setTimeout as delay } from 'node:timers/promises';
import { downloadError, PassingFailure, throwIfStopped } from './hub-error.js';

export interface RetryLimits {
  /** Failures in a row, without any progress between them, after which it gives up. */
  readonly maxFailures: number;
  /** The first pause; each further one is twice as long. */
  readonly firstPauseMs: number;
  /** Longest pause, also when a server asks for a longer one: then it gives up at once. */
  readonly maxPauseMs: number;
}

export const defaultRetryLimits: RetryLimits = { maxFailures: 5, firstPauseMs: 500, maxPauseMs: 60_000 };

/**
 * Runs `attempt` until it succeeds or fails for good; `progress` counts whatever it gets done, and failures are counted
 * anew whenever it has grown. Rejects with `STET_ERR_DOWNLOAD`, `STET_ERR_ABORTED`, or what else `attempt` threw.
 */
export async function withRetries<Result>(
  attempt: () => Promise<Result>,
  { limits, signal, progress = () => 0 }: { limits: RetryLimits; signal: AbortSignal; progress?: () => number },
): Promise<Result> {
  let failures = 0;
  let done = progress();
  for (;;) {
    throwIfStopped(signal);
    try {
      return await attempt();
    } catch (error) {
      throwIfStopped(signal);
      if (!(error instanceof PassingFailure)) throw error;
      failures = progress() > done ? 1 : failures + 1;
      done = progress();
      const pauseMs = error.retryAfterMs ?? Math.min(limits.firstPauseMs * 2 ** (failures - 1), limits.maxPauseMs);
      if (failures >= limits.maxFailures) throw downloadError(`${error.message}, ${failures} times in a row`, error);
      if (pauseMs > limits.maxPauseMs) {
        throw downloadError(`${error.message} and asks to wait for ${Math.ceil(pauseMs / 1000)} s`, error);
      }
      await delay(pauseMs, undefined, { signal }).catch(() => throwIfStopped(signal));
    }
  }
}
