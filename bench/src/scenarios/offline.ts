import { StetError } from '@stet/backend';
import { derivedSeed } from '../random.js';
import type { StudyContext } from '../study/context.js';
import { interleaved, type Scenario, type Unit } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';
import { runTrace, type TraceRun } from '../workloads/run-trace.js';
import { traceOf } from '../workloads/trace.js';
import { type Workload, type WorkloadFigures, workloadFigures, workloadOf } from '../workloads/workload.js';
import {
  type OfflineCase,
  type OfflineMeasure,
  offlineCases,
  offlineKey,
  offlineKinds,
  offlineRounds,
  offlineShares,
  workloadKey,
} from './offline-cases.js';
import { offlineResult } from './offline-result.js';

const REQUESTS = { quick: 32, full: 40 };
/** What a request of the embedded model takes on two cores. */
const SECONDS_EACH = 0.02;

export const offline: Scenario<OfflineMeasure> = {
  name: 'offline',
  title: 'Offline throughput',
  question: 'What does throughput lose with the share of requests that are deterministic?',
  paperFigure: 'SOSP, figure 10',
  units,
  result: offlineResult,
};

function units(study: Study): Unit<OfflineMeasure>[] {
  const requests = study.requests ?? sized(study, REQUESTS);
  refuseFew(requests, offlineShares(study));
  const workloads = new Map(offlineKinds(study).map((kind) => [kind, workloadOf(kind, study.dataset)]));
  const rounds = offlineRounds(study);
  const seconds = SECONDS_EACH * requests;
  const cases = offlineCases(study);
  return [
    ...[...workloads.values()].map(
      (workload): Unit<OfflineMeasure> => ({
        key: workloadKey(workload.kind),
        seconds: 0.1,
        run: async (context) => describeTraces(context, workload, requests, rounds),
      }),
    ),
    ...interleaved(
      cases,
      rounds,
      (one, round): Unit<OfflineMeasure> => ({
        key: offlineKey(one, round),
        seconds,
        run: (context) => measure(context, workloads.get(one.kind)!, one, requests, round),
      }),
      // An engine is warm after a trace in which all is deterministic: it runs in both schedules.
      cases.filter(({ deterministicShare }) => deterministicShare === 1),
    ),
  ];
}

function refuseFew(requests: number, shares: readonly number[]): void {
  const few = shares.find((share) => share > 0 && Math.round(share * requests) === 0);
  if (few === undefined) return;
  throw new StetError(
    'STET_ERR_BAD_REQUEST',
    `${100 * few} % of ${requests} requests is none: give --requests ${Math.ceil(0.5 / few)} or more`,
  );
}

/** In a round all cases have the same requests, in the next one others. */
function requestsOf(context: StudyContext, workload: Workload, count: number, round: number) {
  return workload.requests(context.model, count, derivedSeed(context.study.seed, round));
}

function describeTraces(context: StudyContext, workload: Workload, count: number, rounds: number): WorkloadFigures {
  const traces = Array.from({ length: rounds }, (_, i) => requestsOf(context, workload, count, i + 1));
  return workloadFigures(workload, context.model, traces);
}

async function measure(
  context: StudyContext,
  workload: Workload,
  { policy, deterministicShare }: OfflineCase,
  count: number,
  round: number,
): Promise<TraceRun> {
  const requests = requestsOf(context, workload, count, round);
  const trace = traceOf(requests, { deterministicShare, sampling: 'greedy', seed: context.study.seed });
  // All of them may wait: they come at once.
  const engine = await context.engine({ policy, limits: { maxWaiting: count } });
  return runTrace(engine, trace, context.signal);
}
