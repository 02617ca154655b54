import type { Chart, Row } from '../../src/study/scenario.js';
import { STUDY_SCHEMA, type StudyFile, type StudyPart } from '../../src/study/study-file.js';

const ratios = [0, 2, 5, 10, 20, 50, 100];
const policies = ['dvr(16)', 'auto', 'direct'];

const offlineRows: Row[] = ratios.flatMap((share, i) =>
  policies.map((policy, p) => ({ share, policy, ratio: 1 - 0.01 * share ** (0.5 + 0.1 * p) * (1 + 0.02 * i) })),
);

/** One of each kind. */
export const charts: readonly Chart[] = [
  {
    name: 'offline',
    title: 'Throughput by the share of deterministic requests',
    caption: 'Higher is better; 1 is what the same requests reach without any determinism.',
    kind: 'line',
    rows: offlineRows,
    x: { field: 'share', title: 'deterministic requests, %', type: 'quantitative' },
    y: { field: 'ratio', title: 'tokens/s over all-fast', type: 'quantitative', domain: [0, 1.1] },
    color: { field: 'policy', title: 'policy' },
    rule: { y: 1, label: 'all fast' },
  },
  {
    name: 'online-ttft',
    title: 'Time to the first token',
    caption: 'The share of requests that had begun by then.',
    kind: 'step',
    rows: ['ordinary', 'deterministic'].flatMap((kind, k) =>
      [2, 4].flatMap((qps) =>
        Array.from({ length: 30 }, (_, i) => ({
          kind,
          qps: `${qps} requests/s`,
          ms: (i + 1) ** 1.5 * (1 + k) * qps,
          share: (i + 1) / 30,
        })),
      ),
    ),
    x: { field: 'ms', title: 'ms', type: 'quantitative', scale: 'log' },
    y: { field: 'share', title: 'share of requests', type: 'quantitative', domain: [0, 1] },
    color: { field: 'kind', title: 'requests' },
    facet: { field: 'qps', title: 'arrivals' },
  },
  {
    name: 'one-of-eleven',
    title: 'Tokens per second of eleven requests',
    caption: 'Higher is better.',
    kind: 'bar',
    rows: [
      { mode: 'all fast', tokens: 5123.4 },
      { mode: 'one deterministic, dvr(16)', tokens: 4890 },
      { mode: 'one deterministic, direct', tokens: 4930 },
      { mode: 'everything under the fixed order', tokens: 3120 },
    ],
    x: { field: 'mode', title: 'what runs', type: 'nominal' },
    y: { field: 'tokens', title: 'tokens/s', type: 'quantitative' },
    rule: { y: 5123.4, label: 'all fast' },
  },
  {
    name: 'windows',
    title: 'Rollbacks by window and group',
    caption: 'Of 100 windows.',
    kind: 'heat',
    rows: [8, 16, 32, 64].flatMap((window) =>
      [1, 2, 4, 8].map((group) => ({ window, group, rollbacks: Math.sqrt(window * group) / 3 })),
    ),
    x: { field: 'window', title: 'window, tokens', type: 'ordinal' },
    y: { field: 'group', title: 'windows in a pass', type: 'ordinal' },
    color: { field: 'rollbacks', title: 'rollbacks' },
  },
  {
    name: 'matrix',
    title: 'Who equals the reference',
    caption: 'Tokens and bits.',
    kind: 'heat',
    rows: ['reference', 'cpu avx2', 'webgpu'].flatMap((backend, b) =>
      ['fast', 'canonical'].map((schedule, s) => ({
        backend,
        schedule,
        verdict: s === 1 || b === 0 ? 'equal' : 'differs',
      })),
    ),
    x: { field: 'schedule', title: 'schedule', type: 'nominal' },
    y: { field: 'backend', title: 'backend', type: 'nominal' },
    color: { field: 'verdict', title: 'verdict' },
  },
  {
    name: 'spans',
    title: 'Tokens until answers differ',
    caption: 'Grouped.',
    kind: 'bar',
    rows: ['prose', 'tale', 'code'].flatMap((text, t) =>
      ['first', 'second'].map((span, s) => ({ text, span, tokens: 120 - 30 * t - 60 * s })),
    ),
    x: { field: 'text', title: 'text', type: 'nominal' },
    y: { field: 'tokens', title: 'tokens', type: 'quantitative' },
    color: { field: 'span', title: 'span' },
  },
  {
    name: 'injection',
    title: 'Recomputed tokens by mismatch rate',
    caption: 'Lower is better.',
    kind: 'point',
    rows: [0, 0.001, 0.01, 0.1].flatMap((rate) =>
      ['dvr(16)', 'auto'].map((policy) => ({ rate, policy, recomputed: rate * 30 })),
    ),
    x: { field: 'rate', title: 'mismatch rate', type: 'quantitative', scale: 'log' },
    y: { field: 'recomputed', title: 'recomputed / committed', type: 'quantitative' },
    color: { field: 'policy', title: 'policy' },
  },
];

/** Of a scenario with rounds: milliseconds of two cases. */
export function timedPart(scale: number, part: Partial<StudyPart> = {}): StudyPart {
  const ms = (one: string, round: number) => scale * (one === 'small' ? 2 : 8) * (1 + 0.01 * ((round * 7) % 3));
  const keys = [0, 1, 2, 3].flatMap((round) => ['small', 'large'].map((one) => [one, round] as const));
  return {
    name: 'timed',
    title: 'How long it takes',
    question: 'How long does it take, by size?',
    paperFigure: 'SOSP, figure 4',
    workload: 'two sizes, median of 3 rounds',
    findings: ['A large one takes four times as long as a small one.', 'A second finding.'],
    tables: [
      {
        title: 'Milliseconds',
        rows: ['small', 'large'].map((size) => ({ size, rows: size === 'small' ? 1 : 4, ms: ms(size, 2) })),
      },
    ],
    charts: [charts[0]!],
    comparisons: [
      { what: 'large over small', source: 'SOSP, figure 9', theirs: 5, ours: 4, better: 'lower' },
      {
        what: 'throughput at 10 %',
        source: 'SOSP, figure 10',
        theirs: [0.71, 0.97],
        ours: 0.6,
        better: 'higher',
        note: 'a CPU has no arithmetic to spare',
      },
    ],
    measures: Object.fromEntries(keys.map(([one, round]) => [`${one}, round ${round}`, ms(one, round)])),
    ...part,
  };
}

export function studyFile(changes: Partial<StudyFile> = {}): StudyFile {
  return {
    schema: STUDY_SCHEMA,
    date: '2026-11-30T10:20:30.000Z',
    study: { size: 'quick', model: 'tales', backend: 'cpu', fast: 'native', threads: 2, seed: 42 },
    model: { name: 'tales', fingerprint: 'stet1-0123456789abcdef', contextLength: 1024, parameterCount: 5_500_000 },
    device: 'Some CPU, AVX-512, 2 threads',
    machine: { cpu: 'Some CPU', cores: 2, memoryGiB: 8, os: 'linux 6.1 x64' },
    versions: { node: '20.20.2', numerics: 'stet-numerics-1', sampler: '1' },
    loadBefore: 0.25,
    elapsedSeconds: 252,
    scenarios: [timedPart(1)],
    ...changes,
  };
}
