import { StetError } from '@stet/backend';

/** What timers take: a longer delay would be none at all. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** Throws `STET_ERR_UNSUPPORTED` for an option that is no delay from `minMs` on. */
export function checkDelayMs(name: string, delayMs: number, minMs: number): void {
  if (!(delayMs >= minMs && delayMs <= MAX_DELAY_MS))
    throw new StetError('STET_ERR_UNSUPPORTED', `${name}: a number from ${minMs} to ${MAX_DELAY_MS}, not ${delayMs}`);
}
