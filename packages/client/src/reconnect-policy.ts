import { StetError } from '@stet/backend';
import { checkDelayMs } from './check-delay.js';

export interface ReconnectOptions {
  /** Connections that are tried, one after another, before what waits for one is given up; 10 by default. */
  readonly maxAttempts?: number;
  /** The longest wait before the first attempt; each failure doubles it. 250 by default. */
  readonly initialDelayMs?: number;
  /** What it is doubled to at most; 8 000 by default. */
  readonly maxDelayMs?: number;
}

export interface ReconnectPolicy extends Required<ReconnectOptions> {
  /** `off`: a lost connection ends its streams, and a request tries one connection. */
  readonly kind: 'on' | 'off';
}

/** Throws `STET_ERR_UNSUPPORTED` for a value out of range. */
export function resolveReconnect(options: ReconnectOptions | false = {}): ReconnectPolicy {
  if (options === false) return { kind: 'off', maxAttempts: 1, initialDelayMs: 0, maxDelayMs: 0 };
  const { maxAttempts = 10, initialDelayMs = 250, maxDelayMs = 8_000 } = options;
  if (!(Number.isSafeInteger(maxAttempts) && maxAttempts >= 1))
    throw new StetError('STET_ERR_UNSUPPORTED', `reconnect.maxAttempts: a whole number from 1, not ${maxAttempts}`);
  checkDelayMs('reconnect.initialDelayMs', initialDelayMs, 0);
  checkDelayMs('reconnect.maxDelayMs', maxDelayMs, initialDelayMs);
  return { kind: 'on', maxAttempts, initialDelayMs, maxDelayMs };
}

/** Milliseconds before attempt 1, 2, …: half fixed, half drawn, so that clients of one lost server come back spread. */
export function retryDelayMs(policy: ReconnectPolicy, attempt: number, random = Math.random()): number {
  const ceilingMs = Math.min(policy.maxDelayMs, policy.initialDelayMs * 2 ** (attempt - 1));
  return (ceilingMs / 2) * (1 + random);
}
