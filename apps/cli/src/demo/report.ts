import { table } from '../table.js';
import type { Comparison } from './compare.js';
import { type DemoResult, KINDS, type Kind, MIXES, resultsOf, THROUGHPUT_REQUESTS } from './run-demo.js';

/** The line that `--json` ends with. */
export interface DemoSummary {
  readonly deterministic: Pick<Comparison, 'runs' | 'distinct' | 'distinctLogprobs'>;
  readonly ordinary: Pick<Comparison, 'runs' | 'distinct' | 'firstDifference'>;
  /** Of all runs of the deterministic request. */
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  readonly tokensPerSecond: Readonly<Record<keyof typeof MIXES, number>>;
}

export function summarize({ trials, comparisons, tokensPerSecond }: DemoResult): DemoSummary {
  const { deterministic, ordinary } = comparisons;
  const rounded = (rate: number) => Math.round(rate * 10) / 10;
  return {
    deterministic: pick(deterministic, ['runs', 'distinct', 'distinctLogprobs']),
    ordinary: pick(ordinary, ['runs', 'distinct', 'firstDifference']),
    ...countersOf(trials, 'deterministic'),
    tokensPerSecond: {
      none: rounded(tokensPerSecond.none),
      oneOf11: rounded(tokensPerSecond.oneOf11),
      all: rounded(tokensPerSecond.all),
    },
  };
}

/** Every answer to the deterministic request had the same tokens and the same log-probabilities, bit for bit. */
export function isDeterministic({ deterministic }: DemoSummary): boolean {
  return deterministic.runs > 0 && deterministic.distinct === 1 && deterministic.distinctLogprobs === 1;
}

/** Tables and what they mean, in words that follow the numbers. */
export function describeDemo(result: DemoResult): string {
  const { comparisons, trials, tokensPerSecond } = result;
  const answers = table(
    [
      'request',
      'runs',
      'distinct outputs',
      'distinct log-probs',
      'first difference',
      'windows',
      'rollbacks',
      'recomputed',
    ],
    KINDS.map((kind) => {
      const { runs, distinct, distinctLogprobs, firstDifference } = comparisons[kind];
      const { windows, rollbacks, recomputedTokens } = countersOf(trials, kind);
      const where = firstDifference === null ? 'none' : `token ${firstDifference}`;
      return [kind, runs, distinct, distinctLogprobs, where, windows, rollbacks, recomputedTokens].map(String);
    }),
  );
  const speed = table(
    ['deterministic requests', 'tokens/s', 'of ordinary'],
    Object.entries(MIXES).map(([mix, count]) => {
      const rate = tokensPerSecond[mix as keyof typeof MIXES];
      return [
        `${count} of ${THROUGHPUT_REQUESTS}`,
        rate.toFixed(0),
        `${((100 * rate) / tokensPerSecond.none).toFixed(0)} %`,
      ];
    }),
  );
  const speedTitle = `${THROUGHPUT_REQUESTS} greedy requests at once, median of ${result.throughputRuns}:`;
  return [answers, '', ...verdict(result), '', speedTitle, speed].join('\n');
}

function verdict({ comparisons }: DemoResult): string[] {
  const { deterministic, ordinary } = comparisons;
  const kept = deterministic.distinct === 1 && deterministic.distinctLogprobs === 1;
  return [
    kept
      ? `The deterministic request gave the same tokens and log-probabilities, bit for bit, in all ${deterministic.runs} runs.`
      : `FAILED: the deterministic request gave ${deterministic.distinct} different outputs and ${deterministic.distinctLogprobs} different log-probabilities in ${deterministic.runs} runs.`,
    ordinaryVerdict(ordinary),
  ];
}

function ordinaryVerdict({ runs, distinct, distinctLogprobs, firstDifference }: Comparison): string {
  if (distinct > 1)
    return `The ordinary request gave ${distinct} different outputs in ${runs} runs, the first difference at token ${firstDifference}.`;
  const bits =
    distinctLogprobs > 1
      ? `though its log-probabilities had ${distinctLogprobs} different sets of bits`
      : 'with the same log-probabilities too';
  return `The ordinary request happened to give the same tokens in all ${runs} runs, ${bits}; nothing promises that.`;
}

function countersOf(trials: DemoResult['trials'], kind: Kind) {
  const results = resultsOf(trials, kind);
  const sum = (key: 'windows' | 'rollbacks' | 'recomputedTokens') =>
    results.reduce((total, result) => total + result[key], 0);
  return { windows: sum('windows'), rollbacks: sum('rollbacks'), recomputedTokens: sum('recomputedTokens') };
}

function pick<Value, Key extends keyof Value>(value: Value, keys: readonly Key[]): Pick<Value, Key> {
  return Object.fromEntries(keys.map((key) => [key, value[key]])) as Pick<Value, Key>;
}
