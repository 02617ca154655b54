import { percentile, rounded } from '../stats.js';
import type { LoadAnswer } from './load-client.js';
import type { LoadRequest } from './requests.js';
import { Violation, type ViolationKind } from './stream-checker.js';

export type TrafficKind = 'ordinary' | 'deterministic';
export const trafficKinds = ['ordinary', 'deterministic'] as const satisfies readonly TrafficKind[];

export interface Distribution {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface TrafficFigures {
  readonly requests: number;
  readonly tokens: number;
  readonly ttftMs: Distribution;
  readonly gapMs: Distribution;
}

interface Times {
  requests: number;
  tokens: number;
  readonly firstTokensMs: number[];
  readonly gapsMs: number[];
}

/** Adds up answers and failures; equal deterministic requests must have equal answers, over whatever they came. */
export class LoadTally {
  /** Whatever went wrong, by what it said. */
  readonly failures = new Map<string, number>();
  /** Refusals and broken connections. */
  errors = 0;
  readonly violations: Record<ViolationKind, number> = { lost: 0, reordered: 0, wrong: 0 };
  readonly #known = new Map<string, string>();
  readonly #times: Record<TrafficKind, Times> = { ordinary: noTimes(), deterministic: noTimes() };

  add({ key, request }: LoadRequest, answer: LoadAnswer): void {
    const times = this.#times[request.deterministic ? 'deterministic' : 'ordinary'];
    times.requests++;
    times.tokens += answer.tokenCount;
    times.firstTokensMs.push(answer.firstTokenMs);
    for (const gap of answer.gapsMs) times.gapsMs.push(gap);
    if (request.deterministic) this.#compare(key, `${answer.hash} ${answer.text}`);
  }

  addFailure(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof Violation) this.violations[error.kind]++;
    else this.errors++;
    this.failures.set(message, (this.failures.get(message) ?? 0) + 1);
  }

  /** Whether everything came, in order, as it should be. */
  get isClean(): boolean {
    return this.failures.size === 0;
  }

  get tokens(): number {
    return this.#times.ordinary.tokens + this.#times.deterministic.tokens;
  }

  /** Of one kind of traffic; undefined where there was none. */
  figures(kind: TrafficKind): TrafficFigures | undefined {
    const { requests, tokens, firstTokensMs, gapsMs } = this.#times[kind];
    if (gapsMs.length === 0) return undefined;
    return { requests, tokens, ttftMs: distribution(firstTokensMs), gapMs: distribution(gapsMs) };
  }

  #compare(key: string, answer: string): void {
    const known = this.#known.get(key);
    if (known === undefined) this.#known.set(key, answer);
    else if (known !== answer)
      this.addFailure(new Violation('wrong', 'two answers to the same deterministic request differ'));
  }
}

export function distribution(values: readonly number[]): Distribution {
  const at = (quantile: number) => rounded(percentile(values, quantile), 2);
  return { count: values.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}

function noTimes(): Times {
  return { requests: 0, tokens: 0, firstTokensMs: [], gapsMs: [] };
}
