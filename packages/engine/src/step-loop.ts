import { assert, type Backend, type StetError } from '@stet/backend';
import { runStep, type Scheduler, type SequenceEvent } from '@stet/scheduler';
import { createMacrotask } from './macrotask.js';
import { toStetError } from './request/event-stream.js';

export interface StepLoopOptions {
  readonly scheduler: Scheduler;
  readonly backend: Backend;
  readonly clock: () => number;
  /** The events of one step. */
  readonly onEvents: (events: readonly SequenceEvent[]) => void;
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
    const { scheduler, backend, clock, onEvents } = this.#options;
    // Requests that arrive in the same turn share the first step.
    await Promise.resolve();
    let idlePlans = 0;
    const counted: Pick<Backend, 'forward' | 'sampler'> = {
      ...(backend.sampler && { sampler: backend.sampler }),
      forward: (step) => {
        idlePlans = 0;
        return backend.forward(step);
      },
    };
    let events: readonly SequenceEvent[] = [];
    const report = () => {
      const due = events;
      events = [];
      if (due.length > 0) onEvents(due);
    };
    const canGoOn = () => scheduler.hasWork && !this.#isStopped;
    // A report may make work: a stream that is read again, a request that follows another.
    do {
      while (canGoOn()) {
        assert(idlePlans++ < MAX_IDLE_PLANS, 'the scheduler has work and plans no step');
        events = await runStep(scheduler, counted, clock, report);
        // With no step to hide behind, at once.
        if (!canGoOn()) report();
        await this.#macrotask.wait();
      }
      // The work may have been aborted meanwhile; what the last step brought to others is still to be told.
      report();
    } while (canGoOn());
    this.#running = undefined;
  }
}
