import { assert, type Backend, type Step, type StetError } from '@stet/backend';
import { runStep, type Scheduler, type SequenceEvent, type StepHooks } from '@stet/scheduler';
import type { StepSample } from './api.js';
import { createMacrotask } from './macrotask.js';
import { toStetError } from './request/event-stream.js';

export interface StepLoopOptions {
  readonly scheduler: Scheduler;
  /** The one that runs the next step. */
  readonly backend: () => Backend;
  readonly clock: () => number;
  /** The events of one step. */
  readonly onEvents: (events: readonly SequenceEvent[]) => void;
  /** A step that reached the backend is over. */
  readonly onStep: (step: StepSample) => void;
  /** The device is lost, and its step had no effect. Resolves when `backend` gives another, or with `gone` when no step will follow. */
  readonly recover: (lost: StetError) => Promise<'recovered' | 'gone'>;
  /** Our own mistake: the scheduler cannot be trusted any more and no step will follow. */
  readonly onBroken: (error: StetError) => void;
}

/** Plans in a row that may come to nothing, e.g. while blocks change hands; more would be a scheduler that is stuck. */
const MAX_IDLE_PLANS = 100;

/** Runs steps while the scheduler has work, one at a time, and lets the event loop go round between them. */
export class StepLoop {
  readonly #options: StepLoopOptions;
  readonly #macrotask = createMacrotask();
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(options: StepLoopOptions) {
    this.#options = options;
  }

  /** Says that there may be work. */
  wake(): void {
    if (this.#isStopped || this.#running || !this.#options.scheduler.hasWork) return;
    this.#running = this.#run().catch((error: unknown) => {
      this.#isStopped = true;
      this.#options.onBroken(toStetError(error));
    });
  }

  /** No step begins after this; resolves when the one in flight has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
    this.#macrotask.close();
  }

  async #run(): Promise<void> {
    const { scheduler, backend, clock, onEvents, onStep, recover } = this.#options;
    // Requests that arrive in the same turn share the first step.
    await Promise.resolve();
    let idlePlans = 0;
    let events: readonly SequenceEvent[] = [];
    const report = () => {
      const due = events;
      events = [];
      if (due.length > 0) onEvents(due);
    };
    const losses: StetError[] = [];
    const hooks: StepHooks = { meanwhile: report, deviceLost: (error) => losses.push(error) };
    const canGoOn = () => scheduler.hasWork && !this.#isStopped;
    // A report may make work: a stream that is read again, a request that follows another.
    do {
      while (canGoOn()) {
        assert(idlePlans++ < MAX_IDLE_PLANS, 'the scheduler has work and plans no step');
        const beganMs = clock();
        let rows: Omit<StepSample, 'elapsedMs'> | undefined;
        const noteForward = ({ fast, canonical }: Step) => {
          idlePlans = 0;
          rows = { fastRows: fast?.tokens.length ?? 0, canonicalRows: canonical?.tokens.length ?? 0 };
        };
        events = await runStep(scheduler, watched(backend(), noteForward), clock, hooks);
        const lost = losses.pop();
        if (rows && !lost) onStep({ ...rows, elapsedMs: clock() - beganMs });
        // With no step to hide behind, at once.
        if (lost || !canGoOn()) report();
        if (lost && (await recover(lost)) === 'gone') {
          this.#isStopped = true;
          return;
        }
        await this.#macrotask.wait();
      }
      // The work may have been aborted meanwhile; what the last step brought to others is still to be told.
      report();
    } while (canGoOn());
    this.#running = undefined;
  }
}

/** The backend, with word of every step that reaches it. */
function watched(backend: Backend, onForward: (step: Step) => void): Pick<Backend, 'forward' | 'sampler'> {
  return {
    ...(backend.sampler && { sampler: backend.sampler }),
    forward: (step) => {
      onForward(step);
      return backend.forward(step);
    },
  };
}
