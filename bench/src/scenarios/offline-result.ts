import { median, rounded, type Spread, spreadOf } from '../stats.js';
import type { PaperComparison, ScenarioResult, Table } from '../study/scenario.js';
import type { Study } from '../study/study.js';
import {
  compareAnswers,
  type EqualAnswers,
  equalAnswersFailure,
  equalAnswersFinding,
} from '../workloads/equal-answers.js';
import type { TraceRun } from '../workloads/run-trace.js';
import { lengthsText, type WorkloadFigures, type WorkloadKind } from '../workloads/workload.js';
import {
  type OfflineCase,
  type OfflineMeasure,
  type OfflinePolicy,
  offlineCases,
  offlineKey,
  offlineKinds,
  offlinePolicies,
  offlineRounds,
  workloadKey,
} from './offline-cases.js';

/** One case over all rounds. */
interface Figure extends OfflineCase {
  /** Throughput over that of no deterministic requests in the same round. */
  readonly ratio: Spread;
  /** Medians. */
  readonly totalRate: number;
  readonly outputRate: number;
  /** Of all rounds. */
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedShare: number;
}

const TITLES: Readonly<Record<WorkloadKind, string>> = {
  sharegpt: 'ShareGPT-style',
  arxiv: 'arXiv-style',
  grid: 'fixed lengths',
  dataset: 'dataset',
};

/**
 * Throughput over none deterministic at 2, 5, 10, 20, 50 and 100 %, and of kernels that are all batch-invariant. Read from figure 10
 * of the SOSP paper (Llama-3.1-8B on an H100, window 32 by group 16) and from the data of its first version (four H100 PCIe, 64 by 8).
 */
const SHARES = [0.02, 0.05, 0.1, 0.2, 0.5, 1];
const PAPER: Partial<Record<WorkloadKind, readonly PaperRow[]>> = {
  sharegpt: [
    {
      from: 'SOSP, figure 10, ShareGPT, Llama-3.1-8B on H100',
      ratios: [0.89, 0.82, 0.71, 0.64, 0.56, 0.46],
      canonical: 0.82,
    },
    {
      from: 'arXiv v2, ShareGPT, Llama-3.1-8B on H100 PCIe',
      ratios: [0.965, 0.901, 0.851, 0.783, 0.688, 0.576],
      canonical: 0.641,
    },
  ],
  arxiv: [
    {
      from: 'SOSP, figure 10, ArXiv, Llama-3.1-8B on H100',
      ratios: [0.93, 0.93, 0.92, 0.92, 0.88, 0.77],
      canonical: 0.83,
    },
    {
      from: 'arXiv v2, ArXiv, Llama-3.1-8B on H100 PCIe',
      ratios: [1, 0.995, 0.989, 0.976, 0.916, 0.841],
      canonical: 0.698,
    },
  ],
  grid: [
    {
      from: 'SOSP, figure 10, 1K/256, Llama-3.1-8B on H100',
      ratios: [0.99, 0.98, 0.97, 0.93, 0.84, 0.74],
      canonical: 0.84,
    },
  ],
};

interface PaperRow {
  readonly from: string;
  readonly ratios: readonly number[];
  readonly canonical: number;
}

export function offlineResult(measures: ReadonlyMap<string, OfflineMeasure>, study: Study): ScenarioResult {
  const kinds = offlineKinds(study);
  const workloads = kinds.map((kind) => measures.get(workloadKey(kind)) as WorkloadFigures);
  const runs = measures as ReadonlyMap<string, TraceRun>;
  const figures = figuresOf(runs, study);
  const equal = equalAnswers(runs, study);
  return {
    workload:
      `${workloads[0]!.requests} greedy requests sent at once, the deterministic ones spread over all of them; ` +
      `median of ${offlineRounds(study)} interleaved rounds, each with other requests; no prefix cache. ` +
      workloads.map(lengthsText).join('. '),
    findings: [
      ...kinds.flatMap((kind) => findings(kind, figures)),
      noiseFinding(figures),
      equalAnswersFinding(equal, 'every share and policy'),
    ],
    tables: [ratioTable(kinds, figures), detailTable(figures)],
    charts: [
      {
        name: 'offline',
        title: 'Throughput by the share of deterministic requests',
        caption:
          'Tokens read and written per second, over those without deterministic requests in the same round. Higher is better; direct at 100 % is everything under the fixed order.',
        kind: 'line',
        rows: figures.map(({ kind, policy, deterministicShare, ratio }) => ({
          workload: TITLES[kind],
          policy,
          deterministic: 100 * deterministicShare,
          ratio: rounded(ratio.median, 4),
        })),
        x: { field: 'deterministic', title: '% deterministic', type: 'quantitative' },
        y: { field: 'ratio', title: 'throughput over none', type: 'quantitative' },
        color: { field: 'policy', title: 'policy' },
        facet: { field: 'workload', title: 'workload' },
        rule: { y: 1, label: 'none deterministic' },
      },
    ],
    comparisons: kinds.flatMap((kind) => comparisonsOf(kind, figures)),
    ...equalAnswersFailure(equal),
  };
}

function figuresOf(runs: ReadonlyMap<string, TraceRun>, study: Study): Figure[] {
  const rounds = Array.from({ length: offlineRounds(study) }, (_, i) => i + 1);
  const at = (one: OfflineCase, round: number) => runs.get(offlineKey(one, round))!;
  // Without deterministic requests all policies do the same: the middle one of three is what others are held against.
  const baseSeconds = (kind: WorkloadKind, round: number) =>
    median(offlinePolicies.map((policy) => at({ kind, policy, deterministicShare: 0 }, round).seconds));
  return offlineCases(study).map((one) => {
    const all = rounds.map((round) => at(one, round));
    const ratios = all.map(({ seconds }, i) => baseSeconds(one.kind, rounds[i]!) / seconds);
    const sum = (of: (run: TraceRun) => number) => all.reduce((total, run) => total + of(run), 0);
    const deterministicTokens = sum((run) => run.deterministicTokens);
    return {
      ...one,
      ratio: spreadOf(ratios),
      totalRate: median(all.map((run) => (run.promptTokens + run.outputTokens) / run.seconds)),
      outputRate: median(all.map((run) => run.outputTokens / run.seconds)),
      windows: sum((run) => run.windows),
      rollbacks: sum((run) => run.rollbacks),
      recomputedShare: deterministicTokens === 0 ? 0 : sum((run) => run.recomputedTokens) / deterministicTokens,
    };
  });
}

/** In a round all cases of a workload have the same requests. */
function equalAnswers(runs: ReadonlyMap<string, TraceRun>, study: Study): EqualAnswers {
  const rounds = Array.from({ length: offlineRounds(study) }, (_, i) => i + 1);
  return compareAnswers(
    offlineCases(study).flatMap((one) =>
      rounds.map((round) => [`${one.kind}, round ${round}`, runs.get(offlineKey(one, round))!.digests] as const),
    ),
  );
}

function find(figures: readonly Figure[], kind: WorkloadKind, policy: OfflinePolicy, share: number): Figure {
  return figures.find((one) => one.kind === kind && one.policy === policy && one.deterministicShare === share)!;
}

function findings(kind: WorkloadKind, figures: readonly Figure[]): string[] {
  const at = (policy: OfflinePolicy, share: number) => find(figures, kind, policy, share).ratio;
  const [some, all] = [at('auto', 0.1), at('auto', 1)];
  const canonical = at('direct', 1);
  return [
    `${TITLES[kind]}: with 10 % of the requests deterministic, auto keeps ${share(some.median)} of the throughput without any ` +
      `(${share(some.least)} to ${share(some.most)} by round), dvr ${share(at('dvr', 0.1).median)}, direct ${share(at('direct', 0.1).median)}.`,
    `${TITLES[kind]}: with all of them deterministic, auto keeps ${share(all.median)}, dvr ${share(at('dvr', 1).median)}; ` +
      `everything under the fixed order alone ${share(canonical.median)}, of which auto has ${share(all.median / canonical.median)}.`,
  ];
}

/** What equal work differs by is what no other difference can be told from. */
function noiseFinding(figures: readonly Figure[]): string {
  const none = figures.filter(({ deterministicShare }) => deterministicShare === 0).map(({ ratio }) => ratio);
  const least = Math.min(...none.map((ratio) => ratio.least));
  const most = Math.max(...none.map((ratio) => ratio.most));
  return `Runs without deterministic requests, which do equal work under every policy, lie between ${least.toFixed(2)} and ${most.toFixed(2)} of each other's middle: smaller differences are the machine's.`;
}

/** As in the paper: a line for each workload and policy, a column for each share. */
function ratioTable(kinds: readonly WorkloadKind[], figures: readonly Figure[]): Table {
  return {
    title: 'Throughput over that without deterministic requests, by their share',
    rows: kinds.flatMap((kind) =>
      offlinePolicies.map((policy) => {
        const own = figures.filter((one) => one.kind === kind && one.policy === policy);
        return {
          workload: TITLES[kind],
          policy,
          'tokens/s without any': Math.round(own[0]!.totalRate),
          ...Object.fromEntries(
            own.map(({ deterministicShare, ratio }) => [`${100 * deterministicShare} %`, rounded(ratio.median, 2)]),
          ),
        };
      }),
    ),
  };
}

function detailTable(figures: readonly Figure[]): Table {
  return {
    title: 'Tokens per second, and what verification did in all rounds',
    rows: figures.map((one) => ({
      workload: TITLES[one.kind],
      'deterministic %': 100 * one.deterministicShare,
      policy: one.policy,
      'in + out tokens/s': Math.round(one.totalRate),
      'out tokens/s': Math.round(one.outputRate),
      'over none': rounded(one.ratio.median, 3),
      least: rounded(one.ratio.least, 3),
      most: rounded(one.ratio.most, 3),
      windows: one.windows,
      rollbacks: one.rollbacks,
      'recomputed %': rounded(100 * one.recomputedShare, 2),
    })),
  };
}

function comparisonsOf(kind: WorkloadKind, figures: readonly Figure[]): PaperComparison[] {
  const canonical = find(figures, kind, 'direct', 1).ratio.median;
  return (PAPER[kind] ?? []).flatMap(({ from, ratios, canonical: theirCanonical }) => [
    ...figures
      .filter((one) => one.kind === kind && one.policy === 'auto' && SHARES.includes(one.deterministicShare))
      .map(({ deterministicShare, ratio }): PaperComparison => {
        const theirs = ratios[SHARES.indexOf(deterministicShare)]!;
        return {
          what: `throughput at ${100 * deterministicShare} % deterministic over none, ${TITLES[kind]}`,
          source: from,
          theirs,
          ours: ratio.median,
          better: 'higher',
          note: noteOf(ratio.median, theirs, canonical),
        };
      }),
    {
      what: `throughput of everything under the fixed order over none, ${TITLES[kind]}`,
      source: `${from}, batch-invariant kernels`,
      theirs: theirCanonical,
      ours: canonical,
      better: 'higher',
      note: 'no rollback in either: it is what canonical kernels cost on the machine',
    },
  ]);
}

function noteOf(ours: number, theirs: number, canonical: number): string {
  if (ours >= theirs)
    return 'auto leaves windows for canonical rows where those are cheaper; the paper always decodes and verifies';
  return `canonical rows alone keep ${share(canonical)} here, where a GPU verifies up to 256 rows for the price of one`;
}

function share(value: number): string {
  return `${(100 * value).toFixed(0)} %`;
}
