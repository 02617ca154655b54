import type { TrafficKind } from '../load/tally.js';
import { type Study, sized } from '../study/study.js';
import type { AnswerDigests } from '../workloads/equal-answers.js';
import type { WorkloadFigures } from '../workloads/workload.js';

/** How many requests come: a share of what the server can answer, or a number per second. */
export type Load =
  | { readonly kind: 'relative'; readonly ofCapacity: number }
  | { readonly kind: 'absolute'; readonly qps: number };

/** Who is deterministic. `canonical`: everybody, all under the fixed order, as with batch-invariant kernels. */
export interface Mix {
  readonly title: string;
  readonly policy: 'auto' | 'direct';
  /** Of the requests, 0 to 1. */
  readonly deterministicShare: number;
}

export interface OnlineCase {
  readonly load: Load;
  readonly mix: Mix;
}

export type Capacity = { readonly qps: number };

/** Milliseconds as the client saw them, from when a request should have been sent. */
export type Latencies = {
  readonly firstTokenMs: readonly number[];
  readonly endToEndMs: readonly number[];
  readonly gapMs: GapFigures;
};

/** Between commits: so many that their percentiles are kept, not they. */
export type GapFigures = { readonly p50: number; readonly p90: number; readonly p99: number; readonly max: number };

export type OnlineRun = {
  readonly qps: number;
  readonly lagP99Ms: number;
  /** Of each kind of traffic that there was. */
  readonly latencies: { readonly [kind in TrafficKind]?: Latencies };
  readonly digests: AnswerDigests;
};

export type OnlineMeasure = WorkloadFigures | Capacity | OnlineRun;

export const NONE: Mix = { title: 'none', policy: 'auto', deterministicShare: 0 };
export const CANONICAL: Mix = { title: 'all canonical', policy: 'direct', deterministicShare: 1 };

const SHARES = { quick: [0.2], full: [0.1, 0.5, 1] };
const LOADS = { quick: [0.3, 0.6], full: [0.3, 0.6, 0.9] };
const ROUNDS = { quick: 2, full: 3 };

export const WORKLOAD_KEY = 'workload';
export const CAPACITY_KEY = 'capacity';

export function onlineRounds(study: Study): number {
  return study.rounds ?? sized(study, ROUNDS);
}

export function onlineLoads(study: Study): Load[] {
  return (
    study.qps?.map((qps): Load => ({ kind: 'absolute', qps })) ??
    sized(study, LOADS).map((ofCapacity): Load => ({ kind: 'relative', ofCapacity }))
  );
}

export function onlineMixes(study: Study): Mix[] {
  const some = sized(study, SHARES).map(
    (deterministicShare): Mix => ({ title: `${100 * deterministicShare} %`, policy: 'auto', deterministicShare }),
  );
  return [NONE, ...some, CANONICAL];
}

export function onlineCases(study: Study): OnlineCase[] {
  const mixes = onlineMixes(study);
  return onlineLoads(study).flatMap((load) => mixes.map((mix) => ({ load, mix })));
}

export function loadTitle(load: Load): string {
  return load.kind === 'relative' ? `load ${load.ofCapacity}` : `${load.qps} QPS`;
}

export function onlineKey({ load, mix }: OnlineCase, round: number): string {
  return `${loadTitle(load)}, ${mix.title}, round ${round}`;
}
