import { StetError } from '@stet/backend';
import { createServer } from '@stet/server';
import { trafficKinds } from '../load/tally.js';
import { derivedSeed } from '../random.js';
import { percentile, rounded } from '../stats.js';
import type { StudyContext } from '../study/context.js';
import { interleaved, type Scenario, type Unit } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';
import { arrivalTimes } from '../workloads/arrivals.js';
import { answerDigests } from '../workloads/equal-answers.js';
import { runOpenLoop, type TimedAnswer } from '../workloads/open-loop.js';
import { type TraceRequest, traceOf } from '../workloads/trace.js';
import { type Workload, workloadFigures, workloadOf } from '../workloads/workload.js';
import {
  CANONICAL,
  CAPACITY_KEY,
  type Capacity,
  type Latencies,
  type Load,
  type Mix,
  NONE,
  type OnlineCase,
  type OnlineMeasure,
  type OnlineRun,
  onlineCases,
  onlineKey,
  onlineMixes,
  onlineRounds,
  WORKLOAD_KEY,
} from './online-cases.js';
import { onlineResult } from './online-result.js';

const REQUESTS = { quick: 40, full: 96 };
/** Requests per second that two cores answer with the embedded model; the time left is reckoned by it. */
const USUAL_QPS = 35;
const CAPACITY_RUNS = 2;
const WARM_UP_REQUESTS = 8;

/** What the units of a run share. */
interface Plan {
  readonly workload: Workload;
  readonly requests: number;
}

export const online: Scenario<OnlineMeasure> = {
  name: 'online',
  title: 'Online latency',
  question: 'How much later do answers come when some of them are deterministic, by load?',
  paperFigure: 'SOSP, figures 11 and 12',
  units,
  result: onlineResult,
};

function units(study: Study): Unit<OnlineMeasure>[] {
  const workload = workloadOf(study.dataset === undefined ? 'sharegpt' : 'dataset', study.dataset);
  const plan = { workload, requests: study.requests ?? sized(study, REQUESTS) };
  refuseFew(plan.requests, onlineMixes(study));
  const rounds = onlineRounds(study);
  return [
    {
      key: WORKLOAD_KEY,
      seconds: 0.1,
      run: async ({ model }) => {
        const all = Array.from({ length: rounds }, (_, i) => requestsOf(study, plan, model, i + 1));
        return workloadFigures(workload, model, all);
      },
    },
    {
      key: CAPACITY_KEY,
      seconds: (CAPACITY_RUNS * plan.requests) / USUAL_QPS,
      run: (context) => measureCapacity(context, plan),
    },
    ...interleaved(
      onlineCases(study),
      rounds,
      (one, round): Unit<OnlineMeasure> => ({
        key: onlineKey(one, round),
        seconds: 0.5 + plan.requests / usualQps(one.load),
        run: (context) => measure(context, plan, one, round),
      }),
      // A server is warm when it is opened.
      [],
    ),
  ];
}

function refuseFew(requests: number, mixes: readonly Mix[]): void {
  const few = mixes.find(({ deterministicShare: share }) => share > 0 && Math.round(share * requests) === 0);
  if (few === undefined) return;
  throw new StetError('STET_ERR_BAD_REQUEST', `${few.title} of ${requests} requests is none: give more --requests`);
}

function usualQps(load: Load): number {
  return load.kind === 'relative' ? USUAL_QPS * load.ofCapacity : Math.min(USUAL_QPS, load.qps);
}

/** In a round all cases have the same requests at the same times, times the load; in the next one others. */
function requestsOf({ seed }: Study, { workload, requests }: Plan, model: StudyContext['model'], round: number) {
  return workload.requests(model, requests, derivedSeed(seed, round));
}

function onlineTrace({ study, model }: StudyContext, plan: Plan, { deterministicShare }: Mix, round: number) {
  const requests = requestsOf(study, plan, model, round);
  return traceOf(requests, { deterministicShare, sampling: 'greedy', seed: study.seed });
}

/** Requests per second that the same server answers when all come at once; the quicker of some runs. */
async function measureCapacity(context: StudyContext, plan: Plan): Promise<Capacity> {
  const url = await openServer(context, plan, NONE);
  const trace = onlineTrace(context, plan, NONE, 1);
  let seconds = Number.POSITIVE_INFINITY;
  for (let run = 0; run < CAPACITY_RUNS; run++) {
    const answers = await runAtOnce(url, trace, context.signal);
    seconds = Math.min(seconds, Math.max(...answers.map(({ endToEndMs }) => endToEndMs)) / 1000);
  }
  return { qps: rounded(trace.length / seconds, 3) };
}

async function measure(
  context: StudyContext,
  plan: Plan,
  { load, mix }: OnlineCase,
  round: number,
): Promise<OnlineRun> {
  const url = await openServer(context, plan, mix);
  const trace = onlineTrace(context, plan, mix, round);
  const qps = qpsOf(load, context);
  const times = arrivalTimes({ kind: 'poisson', qps }, trace.length, derivedSeed(context.study.seed, 1000 + round));
  const answers = await runOpenLoop(url, trace, times, context.signal);
  const lags = answers.map(({ lagMs }) => lagMs);
  return {
    qps: rounded(qps, 3),
    lagP99Ms: rounded(percentile(lags, 0.99), 2),
    latencies: latenciesOf(answers),
    digests: answerDigests(answers.map(({ deterministic, hash }) => (deterministic ? hash : undefined))),
  };
}

function qpsOf(load: Load, { measured }: StudyContext): number {
  return load.kind === 'absolute' ? load.qps : load.ofCapacity * (measured(CAPACITY_KEY) as Capacity).qps;
}

/** The server of a policy, over an engine that has run in both schedules. */
async function openServer(context: StudyContext, plan: Plan, { policy }: Mix): Promise<string> {
  // All of them may wait, and be on one socket.
  const engine = await context.engine({ policy, limits: { maxWaiting: plan.requests } });
  const server = await context.keep(`server ${policy}`, async () => {
    const limits = { maxStreamsPerSocket: plan.requests, resumeWindowMs: 0 };
    const opened = await createServer({ engine, port: 0, limits });
    const few = { ...plan, requests: Math.min(WARM_UP_REQUESTS, plan.requests) };
    for (const mix of [NONE, CANONICAL]) await runAtOnce(opened.url, onlineTrace(context, few, mix, 0), context.signal);
    return opened;
  });
  return server.url;
}

function runAtOnce(url: string, trace: readonly TraceRequest[], signal: AbortSignal): Promise<TimedAnswer[]> {
  return runOpenLoop(url, trace, arrivalTimes({ kind: 'at once' }, trace.length, 0), signal);
}

function latenciesOf(answers: readonly TimedAnswer[]): OnlineRun['latencies'] {
  return Object.fromEntries(
    trafficKinds.flatMap((kind) => {
      const own = answers.filter(({ deterministic }) => deterministic === (kind === 'deterministic'));
      return own.length === 0 ? [] : [[kind, latencies(own)]];
    }),
  );
}

function latencies(answers: readonly TimedAnswer[]): Latencies {
  const gaps = answers.flatMap(({ gapsMs }) => gapsMs);
  const gap = (quantile: number) => (gaps.length === 0 ? 0 : rounded(percentile(gaps, quantile), 2));
  return {
    firstTokenMs: answers.map(({ firstTokenMs }) => rounded(firstTokenMs, 2)),
    endToEndMs: answers.map(({ endToEndMs }) => rounded(endToEndMs, 2)),
    gapMs: { p50: gap(0.5), p90: gap(0.9), p99: gap(0.99), max: gap(1) },
  };
}
