import type { StetError } from '@stet/backend';
import type { SequenceStats } from '@stet/scheduler';
import type { EndSample, EngineObserver, StepSample } from './api.js';

/** Whoever watches an engine. */
export class Observers {
  readonly #observers = new Set<EngineObserver>();

  add(observer: EngineObserver): () => void {
    // The same observer may come twice.
    const own = { ...bound(observer) };
    this.#observers.add(own);
    return () => void this.#observers.delete(own);
  }

  stepped(step: StepSample): void {
    for (const observer of this.#observers) observer.onStep(step);
  }

  refused(error: StetError): void {
    for (const observer of this.#observers) observer.onRefused(error);
  }

  /** Of one request, from now on. */
  watch(deterministic: boolean, arrivedMs: number): RequestWatch {
    return new RequestWatch(this.#observers, deterministic, arrivedMs);
  }
}

/** Tells the observers of one request. */
export class RequestWatch {
  #lastMs: number;
  #isFirst = true;

  constructor(
    private readonly observers: ReadonlySet<EngineObserver>,
    private readonly deterministic: boolean,
    arrivedMs: number,
  ) {
    this.#lastMs = arrivedMs;
  }

  committed(tokenCount: number, nowMs: number): void {
    const { deterministic } = this;
    const sample = { deterministic, tokenCount, elapsedMs: nowMs - this.#lastMs, isFirst: this.#isFirst };
    this.#lastMs = nowMs;
    this.#isFirst = false;
    for (const observer of this.observers) observer.onCommit(sample);
  }

  ended(outcome: EndSample['outcome'], stats?: SequenceStats): void {
    const { deterministic } = this;
    for (const observer of this.observers) observer.onEnd({ deterministic, outcome, ...(stats && { stats }) });
  }
}

function bound(observer: EngineObserver): EngineObserver {
  return {
    onStep: (step) => observer.onStep(step),
    onCommit: (commit) => observer.onCommit(commit),
    onEnd: (end) => observer.onEnd(end),
    onRefused: (error) => observer.onRefused(error),
  };
}
