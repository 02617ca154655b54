import { type Backend, type Draw, type Drawn, isStetError, StetError, type TokenSampler } from '@stet/backend';
import type { SequenceEvent } from './events.js';
import type { Scheduler } from './scheduler.js';

/**
 * One step: plan, forward, draw, apply. The only place of this package that waits. A failing backend fails the requests
 * of the step, not the caller. Empty when nothing could run. Tokens are drawn by the backend where it offers that, else
 * by the scheduler: the same ones. `meanwhile` runs while the backend works: the time to tell others what the step
 * before brought.
 */
export async function runStep(
  scheduler: Scheduler,
  backend: Pick<Backend, 'forward' | 'sampler'>,
  now: () => number,
  meanwhile: () => void = () => {},
): Promise<SequenceEvent[]> {
  const planned = scheduler.plan(now());
  const running = planned && backend.forward(planned.step).catch(asStetError);
  meanwhile();
  const result = await running;
  if (!planned || !result) return [];
  if (isStetError(result)) return scheduler.fail(planned, result, now());
  if (!backend.sampler) return scheduler.apply(planned, result, now());
  const drawn = await drawBy(backend.sampler, scheduler.draws(planned, result));
  return isStetError(drawn) ? scheduler.fail(planned, drawn, now()) : scheduler.apply(planned, result, now(), drawn);
}

async function drawBy(sampler: TokenSampler, draws: readonly Draw[]): Promise<readonly Drawn[] | StetError> {
  if (draws.length === 0) return [];
  try {
    return await sampler.sample(draws);
  } catch (error) {
    return asStetError(error);
  }
}

function asStetError(error: unknown): StetError {
  return isStetError(error)
    ? error
    : new StetError('STET_ERR_BACKEND_FAILED', `the step failed: ${String(error)}`, { cause: error });
}
