import type { StetEngine } from '@stet/engine';
import { type Comparison, compareAnswers } from './compare.js';
import { Random } from './random.js';
import { measureThroughput, runTrial, type TrialResult } from './trial.js';
import { randomCrowd, subjectRequest, throughputMix } from './workload.js';

export interface DemoScale {
  /** Sizes of the crowd, and how often each is tried. */
  readonly crowds: readonly number[];
  readonly repetitions: number;
  readonly outputTokens: number;
  readonly throughputRepetitions: number;
  readonly throughputTokens: number;
}

export const FULL_SCALE: DemoScale = {
  ...{ crowds: [0, 10, 40], repetitions: 3, outputTokens: 200 },
  ...{ throughputRepetitions: 3, throughputTokens: 128 },
};

export const QUICK_SCALE: DemoScale = {
  ...{ crowds: [0, 4, 12], repetitions: 2, outputTokens: 48 },
  ...{ throughputRepetitions: 1, throughputTokens: 32 },
};

export const KINDS = ['deterministic', 'ordinary'] as const;
export type Kind = (typeof KINDS)[number];

/** Requests of a throughput measurement, and how many of them are deterministic in each mix. */
export const THROUGHPUT_REQUESTS = 11;
export const MIXES = { none: 0, oneOf11: 1, all: THROUGHPUT_REQUESTS } as const;
export type Mix = keyof typeof MIXES;

export interface Trial {
  readonly kind: Kind;
  readonly crowd: number;
  readonly result: TrialResult;
}

export interface DemoResult {
  readonly trials: readonly Trial[];
  readonly comparisons: Readonly<Record<Kind, Comparison>>;
  /** Repetitions of each throughput measurement. */
  readonly throughputRuns: number;
  /** Median of the repetitions. */
  readonly tokensPerSecond: Readonly<Record<Mix, number>>;
}

export interface DemoOptions {
  readonly scale: DemoScale;
  readonly crowdSeed: number;
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
}

/** The whole demonstration on an engine that nobody else uses. Everything it returns was measured in this run. */
export async function runDemo(engine: StetEngine, options: DemoOptions): Promise<DemoResult> {
  const trials = await runTrials(engine, options);
  const tokensPerSecond = await measureMixes(engine, options);
  const comparisons = {
    deterministic: compareAnswers(resultsOf(trials, 'deterministic')),
    ordinary: compareAnswers(resultsOf(trials, 'ordinary')),
  };
  return { trials, comparisons, throughputRuns: options.scale.throughputRepetitions, tokensPerSecond };
}

export function resultsOf(trials: readonly Trial[], kind: Kind): TrialResult[] {
  return trials.filter((trial) => trial.kind === kind).map((trial) => trial.result);
}

/** Each crowd is another one: its members are drawn anew for every trial. */
async function runTrials(engine: StetEngine, { scale, crowdSeed, signal, onProgress }: DemoOptions): Promise<Trial[]> {
  const random = new Random(crowdSeed);
  const trials: Trial[] = [];
  let aloneMs = 0;
  for (let repetition = 1; repetition <= scale.repetitions; repetition++) {
    for (const crowd of scale.crowds) {
      for (const kind of KINDS) {
        // The crowd arrives while the subject runs, and the subject among the first of it.
        const windowMs = aloneMs / 2;
        const others = randomCrowd(random, crowd, windowMs, scale.outputTokens);
        const subject = { delayMs: random.between(0, windowMs / 2), request: subjectRequest(kind, scale.outputTokens) };
        const result = await runTrial(engine, subject, others, signal);
        if (crowd === 0) aloneMs = Math.max(aloneMs, result.durationMs);
        trials.push({ kind, crowd, result });
        onProgress(
          `${repetition}/${scale.repetitions} ${kind} among ${crowd} others: ${result.tokens.length} tokens in ` +
            `${result.durationMs.toFixed(0)} ms, ${result.rowsPerStep.toFixed(1)} rows a step, ${result.rollbacks} rollbacks`,
        );
      }
    }
  }
  return trials;
}

/** The three mixes in turn, so that a machine that slows down slows all of them. */
async function measureMixes(
  engine: StetEngine,
  { scale, signal, onProgress }: DemoOptions,
): Promise<Readonly<Record<Mix, number>>> {
  const rates: Record<Mix, number[]> = { none: [], oneOf11: [], all: [] };
  const mixes = Object.entries(MIXES) as [Mix, number][];
  for (let repetition = 1; repetition <= scale.throughputRepetitions; repetition++) {
    for (const [mix, deterministicCount] of mixes) {
      const requests = throughputMix(THROUGHPUT_REQUESTS, deterministicCount, scale.throughputTokens);
      const rate = await measureThroughput(engine, requests, signal);
      rates[mix].push(rate);
      onProgress(
        `${repetition}/${scale.throughputRepetitions} ${deterministicCount} of ${THROUGHPUT_REQUESTS} deterministic: ` +
          `${rate.toFixed(0)} tokens/s`,
      );
    }
    mixes.push(mixes.shift()!);
  }
  return { none: median(rates.none), oneOf11: median(rates.oneOf11), all: median(rates.all) };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
