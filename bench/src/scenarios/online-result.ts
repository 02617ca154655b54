import { type TrafficKind, trafficKinds } from '../load/tally.js';
import { median, percentile, rounded } from '../stats.js';
import type { Chart, PaperComparison, ScenarioResult, Table } from '../study/scenario.js';
import type { Study } from '../study/study.js';
import { compareAnswers, equalAnswersFailure, equalAnswersFinding } from '../workloads/equal-answers.js';
import { lengthsText, type WorkloadFigures } from '../workloads/workload.js';
import {
  CANONICAL,
  CAPACITY_KEY,
  type Capacity,
  loadTitle,
  type Mix,
  NONE,
  type OnlineCase,
  type OnlineMeasure,
  type OnlineRun,
  onlineCases,
  onlineKey,
  onlineLoads,
  onlineMixes,
  onlineRounds,
  WORKLOAD_KEY,
} from './online-cases.js';
import { onlinePaper, type PaperRange } from './online-paper.js';

/** One case over all rounds: latencies are those of all of them together. */
interface Figure extends OnlineCase {
  readonly qps: number;
  readonly lagP99Ms: number;
  readonly firstTokenMs: readonly number[];
  readonly endToEndMs: readonly number[];
  readonly kinds: readonly KindFigure[];
}

interface KindFigure {
  readonly kind: TrafficKind;
  readonly firstTokenMs: readonly number[];
  readonly endToEndMs: readonly number[];
  /** Medians of the percentiles of the rounds. */
  readonly gapMs: { readonly p50: number; readonly p90: number; readonly p99: number };
}

type LatencyName = 'firstTokenMs' | 'endToEndMs';
const SHOWN = [0.5, 0.75, 0.9, 0.99];

export function onlineResult(measures: ReadonlyMap<string, OnlineMeasure>, study: Study): ScenarioResult {
  const workload = measures.get(WORKLOAD_KEY) as WorkloadFigures;
  const capacity = measures.get(CAPACITY_KEY) as Capacity;
  const runs = measures as ReadonlyMap<string, OnlineRun>;
  const rounds = Array.from({ length: onlineRounds(study) }, (_, i) => i + 1);
  const figures = onlineCases(study).map((one) =>
    figureOf(
      one,
      rounds.map((round) => runs.get(onlineKey(one, round))!),
    ),
  );
  const equal = compareAnswers(
    onlineCases(study).flatMap((one) =>
      rounds.map((round) => [`round ${round}`, runs.get(onlineKey(one, round))!.digests] as const),
    ),
  );
  const mixes = onlineMixes(study);
  return {
    workload:
      `${workload.requests} greedy requests in each of ${rounds.length} interleaved rounds, Poisson arrivals, over WebSockets to the server in the same process, ` +
      `which answers ${rounded(capacity.qps, 1)} requests per second when all come at once; times count from when a request should have been sent; ` +
      `deterministic requests spread over all, no prefix cache. ${lengthsText(workload)}`,
    findings: [
      ...mixes.slice(1).map((mix) => mixFinding(mix, figures)),
      ...besideFindings(mixes, figures),
      equalAnswersFinding(equal, 'every load, share and policy'),
      lagFinding(figures),
    ],
    tables: [ratioTable(figures), latencyTable(figures), gapTable(figures)],
    charts: [ratioChart(figures), distributionChart(figures)],
    comparisons: mixes.slice(1).flatMap((mix) => comparisonsOf(mix, figures, study)),
    ...equalAnswersFailure(equal),
  };
}

function figureOf(one: OnlineCase, runs: readonly OnlineRun[]): Figure {
  const kinds = trafficKinds.flatMap((kind): KindFigure[] => {
    const own = runs.flatMap(({ latencies }) => latencies[kind] ?? []);
    if (own.length === 0) return [];
    return [
      {
        kind,
        firstTokenMs: own.flatMap(({ firstTokenMs }) => firstTokenMs),
        endToEndMs: own.flatMap(({ endToEndMs }) => endToEndMs),
        gapMs: {
          p50: median(own.map(({ gapMs }) => gapMs.p50)),
          p90: median(own.map(({ gapMs }) => gapMs.p90)),
          p99: median(own.map(({ gapMs }) => gapMs.p99)),
        },
      },
    ];
  });
  return {
    ...one,
    qps: runs[0]!.qps,
    lagP99Ms: Math.max(...runs.map(({ lagP99Ms }) => lagP99Ms)),
    firstTokenMs: kinds.flatMap(({ firstTokenMs }) => firstTokenMs),
    endToEndMs: kinds.flatMap(({ endToEndMs }) => endToEndMs),
    kinds,
  };
}

/** The case without deterministic requests at the same load. */
function baseOf(figures: readonly Figure[], { load }: Figure): Figure {
  return figures.find((one) => loadTitle(one.load) === loadTitle(load) && one.mix.title === NONE.title)!;
}

function ratio(figures: readonly Figure[], one: Figure, name: LatencyName, quantile: number): number {
  return percentile(one[name], quantile) / percentile(baseOf(figures, one)[name], quantile);
}

function whoOf({ title }: Mix): string {
  return title === CANONICAL.title ? 'everything under the fixed order' : `${title} of the requests deterministic`;
}

function ofMix(figures: readonly Figure[], mix: Mix): Figure[] {
  return figures.filter((one) => one.mix.title === mix.title);
}

function mixFinding(mix: Mix, figures: readonly Figure[]): string {
  const all = ofMix(figures, mix);
  const over = (name: LatencyName) => all.map((one) => `${times(ratio(figures, one, name, 0.99))} at ${placeOf(one)}`);
  return (
    `With ${whoOf(mix)}, the 99th percentile of the time to the first token is ${over('firstTokenMs').join(', ')} that without any; ` +
    `of the time to the whole answer, ${over('endToEndMs').join(', ')}.`
  );
}

/** What those notice that asked for nothing. */
function besideFindings(mixes: readonly Mix[], figures: readonly Figure[]): string[] {
  const mix = mixes.find(({ deterministicShare }) => deterministicShare > 0 && deterministicShare < 1);
  if (!mix) return [];
  const gapOf = (one: Figure) => one.kinds.find(({ kind }) => kind === 'ordinary')!.gapMs;
  const parts = ofMix(figures, mix).map((one) => {
    const [own, none] = [gapOf(one), gapOf(baseOf(figures, one))];
    return `${times(own.p50 / none.p50)} by median and ${times(own.p99 / none.p99)} by 99th percentile at ${placeOf(one)}`;
  });
  return [
    `The gaps between tokens of ordinary requests beside ${mix.title} deterministic ones, over those without any: ${parts.join('; ')}.`,
  ];
}

function lagFinding(figures: readonly Figure[]): string {
  const lag = Math.max(...figures.map(({ lagP99Ms }) => lagP99Ms));
  const shortest = Math.min(...figures.map(({ firstTokenMs }) => percentile(firstTokenMs, 0.99)));
  const judgement =
    lag > shortest / 2
      ? 'which is much of the time to the first token, and counts as part of it'
      : 'which counts as part of every time';
  return `Requests left at most ${rounded(lag, 1)} ms late (the worst 99th percentile of a run), ${judgement}.`;
}

function ratioTable(figures: readonly Figure[]): Table {
  return {
    title: 'Percentiles over those without deterministic requests at equal load',
    rows: figures.map((one) => ({
      load: loadTitle(one.load),
      QPS: rounded(one.qps, 1),
      deterministic: one.mix.title,
      'TTFT p50': rounded(ratio(figures, one, 'firstTokenMs', 0.5), 2),
      'TTFT p99': rounded(ratio(figures, one, 'firstTokenMs', 0.99), 2),
      'answer p50': rounded(ratio(figures, one, 'endToEndMs', 0.5), 2),
      'answer p99': rounded(ratio(figures, one, 'endToEndMs', 0.99), 2),
      'sent late p99 ms': rounded(one.lagP99Ms, 1),
    })),
  };
}

function latencyTable(figures: readonly Figure[]): Table {
  const percentiles = (name: string, values: readonly number[]) =>
    Object.fromEntries(SHOWN.map((q) => [`${name} p${100 * q}`, rounded(percentile(values, q), 1)]));
  return {
    title: 'Time to the first token (TTFT) and to the end of the answer, ms',
    rows: figures.flatMap((one) =>
      one.kinds.map(({ kind, firstTokenMs, endToEndMs }) => ({
        load: loadTitle(one.load),
        deterministic: one.mix.title,
        requests: kind,
        count: firstTokenMs.length,
        ...percentiles('TTFT', firstTokenMs),
        ...percentiles('answer', endToEndMs),
      })),
    ),
  };
}

function gapTable(figures: readonly Figure[]): Table {
  return {
    title: 'Time between two commits of an answer, ms; a commit of a deterministic one may have several tokens',
    rows: figures.flatMap((one) =>
      one.kinds.map(({ kind, gapMs }) => ({
        load: loadTitle(one.load),
        deterministic: one.mix.title,
        requests: kind,
        p50: rounded(gapMs.p50, 2),
        p90: rounded(gapMs.p90, 2),
        p99: rounded(gapMs.p99, 2),
      })),
    ),
  };
}

/** Figure 12 of the paper. */
function ratioChart(figures: readonly Figure[]): Chart {
  return {
    name: 'online-first-token',
    title: '99th percentile of the time to the first token, over that without deterministic requests',
    caption: 'Lower is better. All requests together, at equal load.',
    kind: 'line',
    rows: figures.map((one) => ({
      qps: rounded(one.qps, 2),
      deterministic: one.mix.title,
      ratio: rounded(ratio(figures, one, 'firstTokenMs', 0.99), 4),
    })),
    x: { field: 'qps', title: 'requests per second', type: 'quantitative' },
    y: { field: 'ratio', title: 'TTFT p99 over none', type: 'quantitative', scale: 'log' },
    color: { field: 'deterministic', title: 'deterministic' },
    rule: { y: 1, label: 'none deterministic' },
  };
}

const STEPS = 20;

/** Figure 11 of the paper. */
function distributionChart(figures: readonly Figure[]): Chart {
  return {
    name: 'online-answer',
    title: 'Time to the end of the answer',
    caption: 'Share of the requests that are answered after so long. Further left is better.',
    kind: 'step',
    rows: figures.flatMap((one) =>
      Array.from({ length: STEPS }, (_, i) => ({
        load: `${loadTitle(one.load)}, ${rounded(one.qps, 1)} per second`,
        deterministic: one.mix.title,
        ms: rounded(percentile(one.endToEndMs, (i + 1) / STEPS), 1),
        answered: (100 * (i + 1)) / STEPS,
      })),
    ),
    x: { field: 'ms', title: 'ms', type: 'quantitative', scale: 'log' },
    y: { field: 'answered', title: '% answered', type: 'quantitative', domain: [0, 100] },
    color: { field: 'deterministic', title: 'deterministic' },
    facet: { field: 'load', title: 'load' },
  };
}

function comparisonsOf(mix: Mix, figures: readonly Figure[], study: Study): PaperComparison[] {
  const paper = onlinePaper.find(({ title }) => title === mix.title);
  if (!paper) return [];
  const loads = onlineLoads(study).map(loadTitle).join(', ');
  const compare = (what: string, name: LatencyName, { source, theirs }: PaperRange): PaperComparison => {
    const ours = Math.max(...ofMix(figures, mix).map((one) => ratio(figures, one, name, 0.99)));
    const note =
      ours <= theirs[1]
        ? `the largest over ${loads}; theirs over rates at which their server is nearly full`
        : `the largest over ${loads}, with ${figures[0]!.firstTokenMs.length} requests a case, of which the 99th percentile is nearly the latest`;
    return { what: `${what} with ${whoOf(mix)} over none`, source, theirs, ours, better: 'lower', note };
  };
  return [
    compare('99th percentile of the time to the first token', 'firstTokenMs', paper.firstToken),
    compare('99th percentile of the time to the whole answer', 'endToEndMs', paper.endToEnd),
  ];
}

function placeOf({ load, qps }: Figure): string {
  return load.kind === 'relative' ? `${loadTitle(load)} (${rounded(qps, 1)} requests per second)` : loadTitle(load);
}

function times(value: number): string {
  return `${value.toFixed(2)} times`;
}
