import { runClosedLoop } from '../closed-loop.js';
import { median, rounded, type Spread, spreadOf } from '../stats.js';
import type { StudyContext } from '../study/context.js';
import { interleaved, type PaperComparison, type Scenario, type ScenarioResult, type Unit } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';
import { ELEVEN, ELEVEN_PROMPT_TOKENS, elevenStreams } from '../workloads/eleven-streams.js';

const POLICIES = ['auto', 'dvr', 'direct'] as const;
type Policy = (typeof POLICIES)[number];

/** Streams at once, and how many of them are deterministic. */
const MIXES = {
  none: { streams: ELEVEN, deterministic: 0 },
  'one of eleven': { streams: ELEVEN, deterministic: 1 },
  all: { streams: ELEVEN, deterministic: ELEVEN },
  'none of ten': { streams: ELEVEN - 1, deterministic: 0 },
  'one alone': { streams: 1, deterministic: 1 },
} as const;
type MixName = keyof typeof MIXES;

interface Case {
  readonly mix: MixName;
  readonly policy: Policy;
}

/** Output tokens per second of all streams. */
type Measure = { readonly tokensPerSecond: number };

const ROUNDS = { quick: 5, full: 15 };
const OUTPUT_TOKENS = { quick: 48, full: 96 };
/** Answers of each stream that count. */
const ANSWERS = 2;

const CASES: readonly Case[] = [
  ...(['none', 'one of eleven', 'all'] as const).flatMap((mix) => POLICIES.map((policy) => ({ mix, policy }))),
  { mix: 'none of ten', policy: 'auto' },
  { mix: 'one alone', policy: 'auto' },
];

export const oneOfEleven: Scenario<Measure> = {
  name: 'one-of-eleven',
  title: 'One deterministic request among eleven',
  question: 'What does a single deterministic request cost the others in its batch?',
  paperFigure: 'SOSP, figure 5',
  units,
  result,
};

function units(study: Study): Unit<Measure>[] {
  return interleaved(
    CASES,
    roundsOf(study),
    (one, round) => ({
      key: keyOf(one, round),
      seconds: sized(study, OUTPUT_TOKENS) * 0.004,
      run: (context) => measure(context, one),
    }),
    CASES.filter(({ mix }) => mix === 'all'),
  );
}

function roundsOf(study: Study): number {
  return study.rounds ?? sized(study, ROUNDS);
}

function keyOf({ mix, policy }: Case, round: number): string {
  return `${mix}, ${policy}, round ${round}`;
}

async function measure({ study, model, engine }: StudyContext, { mix, policy }: Case): Promise<Measure> {
  const outputTokens = Math.min(sized(study, OUTPUT_TOKENS), Math.floor(model.contextLength / 4));
  const streams = elevenStreams(model.texts.get('prose')!, { ...MIXES[mix], outputTokens });
  const { tokensPerSecond } = await runClosedLoop(await engine({ policy }), streams, ANSWERS);
  return { tokensPerSecond };
}

/** One case over all rounds. */
interface Figure extends Case {
  readonly tokensPerSecond: number;
  /** Over none deterministic in the same round. */
  readonly ratio: Spread;
}

function result(measures: ReadonlyMap<string, Measure>, study: Study): ScenarioResult {
  const figures = figuresOf(measures, study);
  const at = (mix: MixName, policy: Policy) => figures.find((one) => one.mix === mix && one.policy === policy)!;
  const one = at('one of eleven', 'auto').ratio;
  const canonical = at('all', 'direct').ratio;
  const none = figures.filter(({ mix }) => mix === 'none').map(({ ratio }) => ratio);
  return {
    workload:
      `closed loop of ${ELEVEN} greedy streams with prompts of ${ELEVEN_PROMPT_TOKENS} tokens and answers of ` +
      `${sized(study, OUTPUT_TOKENS)} to ${sized(study, OUTPUT_TOKENS) + 10}, median of ${roundsOf(study)} interleaved rounds, no prefix cache`,
    findings: [
      `One deterministic stream of ${ELEVEN} leaves ${percent(one.median)} of the rate of all under auto (${percent(one.least)} to ` +
        `${percent(one.most)} by round), ${percent(at('one of eleven', 'dvr').ratio.median)} under dvr, ${percent(at('one of eleven', 'direct').ratio.median)} under direct.`,
      `Everything under the fixed order, so that the one is deterministic, leaves ${percent(canonical.median)}.`,
      `Ten ordinary streams without the deterministic one reach ${percent(at('none of ten', 'auto').ratio.median)}; it alone ${percent(at('one alone', 'auto').ratio.median)}.`,
      `Runs without deterministic streams differ from each other's middle by ${percent(Math.min(...none.map(({ least }) => least)))} to ` +
        `${percent(Math.max(...none.map(({ most }) => most)))}: smaller differences are the machine's.`,
    ],
    tables: [
      {
        title: 'Output tokens per second of all streams',
        rows: figures.map(({ mix, policy, tokensPerSecond, ratio }) => ({
          deterministic: mix,
          policy,
          streams: MIXES[mix].streams,
          'tokens/s': Math.round(tokensPerSecond),
          'over none': rounded(ratio.median, 3),
          least: rounded(ratio.least, 3),
          most: rounded(ratio.most, 3),
        })),
      },
    ],
    charts: [
      {
        name: 'one-of-eleven',
        title: 'Rate of all streams, over that of eleven ordinary ones',
        caption: 'Higher is better. Everything under the fixed order is all under direct.',
        kind: 'bar',
        rows: figures.map(({ mix, policy, ratio }) => ({ mix, policy, ratio: rounded(ratio.median, 4) })),
        x: { field: 'mix', title: 'deterministic streams', type: 'nominal' },
        y: { field: 'ratio', title: 'rate over none', type: 'quantitative' },
        color: { field: 'policy', title: 'policy' },
        rule: { y: 1, label: 'none deterministic' },
      },
    ],
    comparisons: comparisonsOf(one.median, canonical.median),
  };
}

function figuresOf(measures: ReadonlyMap<string, Measure>, study: Study): Figure[] {
  const rounds = Array.from({ length: roundsOf(study) }, (_, i) => i + 1);
  const rate = (one: Case, round: number) => measures.get(keyOf(one, round))!.tokensPerSecond;
  // Without deterministic streams all policies do the same: the middle one of three is what others are held against.
  const base = (round: number) => median(POLICIES.map((policy) => rate({ mix: 'none', policy }, round)));
  return CASES.map((one) => {
    const ratios = rounds.map((round) => rate(one, round) / base(round));
    return {
      ...one,
      tokensPerSecond: median(rounds.map((round) => rate(one, round))),
      ratio: spreadOf(ratios),
    };
  });
}

/** Rates of figure 5 (nine streams, 512 tokens in and out) and of the cover of the first version (eleven, 512 in and 256 out). */
const PAPER = [
  { source: 'SOSP, figure 5, 1 of 9, Llama-3.1-8B on H100', none: 1776, one: 1733, canonical: 1193 },
  { source: 'arXiv v2, cover, 1 of 11, Llama-3.1-8B on H100 PCIe', none: 938, one: 913, canonical: 413 },
] as const;

function comparisonsOf(one: number, canonical: number): PaperComparison[] {
  return PAPER.flatMap((paper): PaperComparison[] => [
    {
      what: 'rate with one deterministic stream over none',
      source: paper.source,
      theirs: paper.one / paper.none,
      ours: one,
      better: 'higher',
      note:
        one >= paper.one / paper.none
          ? 'our verification runs beside the decoding of the others, theirs stops it'
          : `with everything under the fixed order ${percent(canonical)} are left here, so a verified row is dear; on a GPU a window costs about one step`,
    },
    {
      what: 'rate of everything under the fixed order over none',
      source: `${paper.source}, batch-invariant kernels`,
      theirs: paper.canonical / paper.none,
      ours: canonical,
      better: 'higher',
    },
  ]);
}

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}
