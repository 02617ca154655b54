import {
  type DeterministicMeasure,
  deterministicLoop,
  differingAnswers,
  rollbackShares,
} from '../deterministic-loop.js';
import { median, rounded } from '../stats.js';
import type { StudyContext } from '../study/context.js';
import { interleaved, type Scenario, type ScenarioResult } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';

const STREAMS = 8;
const PROMPT_TOKENS = 32;
const OUTPUT_TOKENS = { quick: 24, full: 64 };
const ROUNDS = { quick: 3, full: 8 };
/** Shares of the fast rows that are made wrong. */
const RATES = { quick: [0, 0.01, 0.2, 1], full: [0, 0.001, 0.01, 0.05, 0.2, 1] };
const POLICIES = ['dvr', 'auto'] as const;
const BLOCK_SIZE = 16;

interface Case {
  readonly policy: (typeof POLICIES)[number] | 'direct';
  readonly rate: number;
}

/** Has no candidates that could be wrong: what all answers are compared with. */
const TRUTH: Case = { policy: 'direct', rate: 0 };

export const injection: Scenario<DeterministicMeasure> = {
  name: 'injection',
  title: 'Injected mismatches',
  question: 'What do more mismatches cost than any fast schedule has by itself, and do they change an answer?',
  units: (study) =>
    interleaved(casesOf(study), roundsOf(study) - 1, (one, round) => ({
      key: caseKey(one, round),
      seconds: sized(study, { quick: 0.3, full: 0.5 }),
      run: (context) => measure(context, one, round),
    })),
  result,
};

function roundsOf(study: Study): number {
  return study.rounds ?? sized(study, ROUNDS);
}

function casesOf(study: Study): Case[] {
  return [TRUTH, ...POLICIES.flatMap((policy) => sized(study, RATES).map((rate) => ({ policy, rate })))];
}

function caseKey({ policy, rate }: Case, round: number): string {
  return `${policy}, ${percent(rate)}, round ${round}`;
}

async function measure(context: StudyContext, { policy, rate }: Case, round: number): Promise<DeterministicMeasure> {
  const { model, study } = context;
  const outputTokens = sized(study, OUTPUT_TOKENS);
  const positions = PROMPT_TOKENS + outputTokens + 1;
  const engine = await context.engine({
    policy,
    mismatchRate: rate,
    kv: { blockSize: BLOCK_SIZE, blockCount: STREAMS * Math.ceil(positions / BLOCK_SIZE) },
  });
  const seed = study.seed + round;
  return deterministicLoop(engine, { model, streams: STREAMS, promptTokens: PROMPT_TOKENS, outputTokens, seed });
}

interface Figure extends Case {
  readonly perThousand: number;
  readonly recomputed: number;
  readonly tokensPerSecond: number;
  /** Throughput over that of the same policy without injection, and over that of `direct`. */
  readonly ofUninjected: number;
  readonly ofDirect: number;
}

function result(measures: ReadonlyMap<string, DeterministicMeasure>, study: Study): ScenarioResult {
  const rounds = Array.from({ length: roundsOf(study) }, (_, round) => round);
  const of = (one: Case) => rounds.map((round) => measures.get(caseKey(one, round))!);
  const ratio = (one: Case, other: Case) =>
    median(rounds.map((round) => of(one)[round]!.tokensPerSecond / of(other)[round]!.tokensPerSecond));
  const figures = casesOf(study).map(
    (one): Figure => ({
      ...one,
      ...rollbackShares(of(one)),
      tokensPerSecond: median(of(one).map(({ tokensPerSecond }) => tokensPerSecond)),
      ofUninjected: ratio(one, { ...one, rate: 0 }),
      ofDirect: ratio(one, TRUTH),
    }),
  );
  const windowed = figures.filter(({ policy }) => policy !== 'direct');
  const answers = windowed.length * rounds.length * STREAMS;
  const differing = windowed.reduce(
    (sum, one) => sum + of(one).reduce((own, other, round) => own + differingAnswers(of(TRUTH)[round]!, [other]), 0),
    0,
  );
  return {
    workload:
      `closed loop of ${STREAMS} deterministic streams (half greedy, half sampled), ${PROMPT_TOKENS} tokens in and ` +
      `${sized(study, OUTPUT_TOKENS)} out; a share of the fast rows is given another likeliest token; fast schedule ${study.fast}; ` +
      `median of ${rounds.length} interleaved rounds`,
    findings: findingsOf(windowed, differing, answers),
    tables: [{ title: 'By rate of injected mismatches', rows: figures.map(tableRow) }],
    charts: [
      {
        name: 'injection-throughput',
        title: 'Throughput, of that of canonical rows alone',
        caption:
          'Higher is better. Windows of a fixed size wait for what is thrown away; the automatic policy gives them up.',
        kind: 'line',
        rows: windowed.map(({ policy, rate, ofDirect }) => ({
          policy,
          injected: rounded(100 * rate, 1),
          throughput: ofDirect,
        })),
        x: { field: 'injected', title: 'injected mismatches, % of fast rows', type: 'ordinal' },
        y: { field: 'throughput', title: 'of canonical rows alone', type: 'quantitative' },
        color: { field: 'policy', title: 'policy' },
        rule: { y: 1, label: 'canonical rows alone' },
      },
      {
        name: 'injection-recomputed',
        title: 'Tokens that were computed in vain, for each that stayed',
        caption: 'Lower is better.',
        kind: 'line',
        rows: windowed.map(({ policy, rate, recomputed }) => ({
          policy,
          injected: rounded(100 * rate, 1),
          recomputed,
        })),
        x: { field: 'injected', title: 'injected mismatches, % of fast rows', type: 'ordinal' },
        y: { field: 'recomputed', title: 'recomputed / output', type: 'quantitative' },
        color: { field: 'policy', title: 'policy' },
      },
    ],
    ...(differing > 0 && {
      failure: `${differing} of ${answers} answers are not those of canonical rows alone`,
    }),
  };
}

function findingsOf(windowed: readonly Figure[], differing: number, answers: number): string[] {
  const sentences = POLICIES.map((policy) => {
    const own = windowed.filter((one) => one.policy === policy);
    const said = own
      .filter(({ rate }) => rate > 0)
      .map(({ rate, ofUninjected }) => `${rounded(ofUninjected, 2)} at ${percent(rate)}`);
    const last = own.at(-1)!;
    return (
      `Of its own throughput without them, \`${policy}\` keeps ${said.join(', ')} injected mismatches; at ${percent(last.rate)} that is ` +
      `${rounded(last.ofDirect, 2)} of canonical rows alone, with ${rounded(last.recomputed, 2)} tokens computed in vain for each that stays.`
    );
  });
  return [
    `${answers - differing} of ${answers} answers are, bit for bit, those of canonical rows alone, whatever the rate.`,
    ...sentences,
  ];
}

function tableRow({ policy, rate, perThousand, recomputed, tokensPerSecond, ofUninjected, ofDirect }: Figure) {
  return {
    policy,
    injected: percent(rate),
    'rollbacks per 1000 tokens': rounded(perThousand, 2),
    'recomputed, % of output': rounded(100 * recomputed, 2),
    'tokens/s': Math.round(tokensPerSecond),
    'of rate 0': rounded(ofUninjected, 3),
    'of canonical rows alone': rounded(ofDirect, 3),
  };
}

function percent(share: number): string {
  return `${rounded(100 * share, 1)} %`;
}
