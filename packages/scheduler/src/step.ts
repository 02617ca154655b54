import { type Backend, isStetError, StetError } from '@stet/backend';
import type { SequenceEvent } from './events.js';
import type { Scheduler } from './scheduler.js';

/**
 * One step: plan, forward, apply. The only place of this package that waits. A failing backend fails the requests of
 * the step, not the caller. Empty when nothing could run. `meanwhile` runs while the backend works: the time to tell
 * others what the step before brought.
 */
export async function runStep(
  scheduler: Scheduler,
  backend: Pick<Backend, 'forward'>,
  now: () => number,
  meanwhile: () => void = () => {},
): Promise<SequenceEvent[]> {
  const planned = scheduler.plan(now());
  const running = planned && backend.forward(planned.step).catch(asStetError);
  meanwhile();
  const result = await running;
  if (!planned || !result) return [];
  return isStetError(result) ? scheduler.fail(planned, result, now()) : scheduler.apply(planned, result, now());
}

function asStetError(error: unknown): StetError {
  return isStetError(error)
    ? error
    : new StetError('STET_ERR_BACKEND_FAILED', `the step failed: ${String(error)}`, { cause: error });
}
