import { type Study, sized } from '../study/study.js';
import type { TraceRun } from '../workloads/run-trace.js';
import type { WorkloadFigures, WorkloadKind } from '../workloads/workload.js';

export const offlinePolicies = ['auto', 'dvr', 'direct'] as const;
export type OfflinePolicy = (typeof offlinePolicies)[number];

/** One bar of the figure. */
export interface OfflineCase {
  readonly kind: WorkloadKind;
  readonly policy: OfflinePolicy;
  /** Of the requests, 0 to 1. */
  readonly deterministicShare: number;
}

export type OfflineMeasure = WorkloadFigures | TraceRun;

const KINDS: Record<Study['size'], readonly WorkloadKind[]> = {
  quick: ['sharegpt'],
  full: ['sharegpt', 'arxiv', 'grid'],
};
const SHARES = { quick: [0, 0.1, 0.5, 1], full: [0, 0.02, 0.05, 0.1, 0.2, 0.5, 1] };
const ROUNDS = { quick: 3, full: 5 };

export function offlineRounds(study: Study): number {
  return study.rounds ?? sized(study, ROUNDS);
}

export function offlineShares(study: Study): readonly number[] {
  return sized(study, SHARES);
}

/** A dataset takes the place of what imitates it. */
export function offlineKinds(study: Study): WorkloadKind[] {
  return sized(study, KINDS).map((kind) => (kind === 'sharegpt' && study.dataset !== undefined ? 'dataset' : kind));
}

export function offlineCases(study: Study): OfflineCase[] {
  return offlineKinds(study).flatMap((kind) =>
    sized(study, SHARES).flatMap((deterministicShare) =>
      offlinePolicies.map((policy): OfflineCase => ({ kind, policy, deterministicShare })),
    ),
  );
}

export function offlineKey({ kind, policy, deterministicShare }: OfflineCase, round: number): string {
  return `${kind}, ${100 * deterministicShare} % ${policy}, round ${round}`;
}

export const workloadKey = (kind: WorkloadKind): string => `${kind}, workload`;
