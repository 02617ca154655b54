import { type Backend, type Draw, type Drawn, isStetError, StetError, type TokenSampler } from '@stet/backend';
import type { SequenceEvent } from './events.js';
import type { Scheduler } from './scheduler.js';
import type { PlannedStep } from './step-plan.js';

/** What a caller of `runStep` may want to do beside it. */
export interface StepHooks {
  /** Runs while the backend works: the time to tell others what the step before brought. */
  readonly meanwhile?: () => void;
  /**
   * The backend said STET_ERR_DEVICE_LOST: the step had no effect, and what ran waits. To be called again only with a
   * backend made anew. Without this hook a lost device is a failure like any other.
   */
  readonly deviceLost?: (error: StetError) => void;
}

/**
 * One step: plan, forward, draw, apply. The only place of this package that waits. A failing backend fails the requests
 * of the step, not the caller. Empty when nothing could run. Tokens are drawn by the backend where it offers that, else
 * by the scheduler: the same ones.
 */
export async function runStep(
  scheduler: Scheduler,
  backend: Pick<Backend, 'forward' | 'sampler'>,
  now: () => number,
  hooks: StepHooks = {},
): Promise<SequenceEvent[]> {
  const planned = scheduler.plan(now());
  const running = planned && backend.forward(planned.step).catch(asStetError);
  hooks.meanwhile?.();
  const result = await running;
  if (!planned || !result) return [];
  if (isStetError(result)) return giveUp(scheduler, planned, result, now, hooks);
  if (!backend.sampler) return scheduler.apply(planned, result, now());
  const drawn = await drawBy(backend.sampler, scheduler.draws(planned, result));
  if (isStetError(drawn)) return giveUp(scheduler, planned, drawn, now, hooks);
  return scheduler.apply(planned, result, now(), drawn);
}

function giveUp(
  scheduler: Scheduler,
  planned: PlannedStep,
  error: StetError,
  now: () => number,
  { deviceLost }: StepHooks,
): SequenceEvent[] {
  if (error.code !== 'STET_ERR_DEVICE_LOST' || !deviceLost) return scheduler.fail(planned, error, now());
  const events = scheduler.deviceLost(planned);
  deviceLost(error);
  return events;
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
