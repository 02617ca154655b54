import { type Backend, type Batch, isStetError, type Step } from '@stet/backend';
import { probeWeights } from '../roofline/probe-plan.js';
import { median } from '../stats.js';
import type { TimedBackends } from './gpu-clock.js';
import { BLOCK_SIZE, type KernelProbe, type KernelWork, type ProbePart } from './probe.js';

const SCHEDULES = ['fast', 'canonical'] as const;
const PARTS = ['rest', 'all'] as const;
/** A sample goes on at least so long, for a short forward is easily disturbed. */
const SAMPLE_SECONDS = 0.005;
/** Rounds of a first look, where they take no longer than this. */
const LOOKS = 4;
const LOOK_SECONDS = 0.2;

/** Seconds of one run of an operation; not above 0 where the machine was too busy to tell. */
export interface KernelSeconds {
  readonly best: number;
  readonly median: number;
}

export interface KernelTiming {
  readonly kernel: string;
  readonly format: string;
  readonly rows: number;
  /** Times that a forward ran it. */
  readonly copies: number;
  readonly rounds: number;
  readonly work: KernelWork;
  readonly fast: KernelSeconds;
  readonly canonical: KernelSeconds;
}

export interface MeasureOptions {
  readonly backends: TimedBackends;
  /** Ascending. */
  readonly rowCounts: readonly number[];
  readonly rounds: number;
  /** Seconds that a forward shall take, so that what else it costs vanishes. */
  readonly targetSeconds: number;
  /** Seconds for all rows of a probe together: then there are fewer rounds, and then fewer rows. */
  readonly budgetSeconds: number;
}

export interface Measured {
  readonly timings: readonly KernelTiming[];
  /** Of the backend. */
  readonly device: string;
  /** What was not measured, and why. */
  readonly skipped?: string;
}

/** Times an operation at every number of rows, as far as the time goes; the first one is always measured. */
export async function measureProbe(probe: KernelProbe, options: MeasureOptions): Promise<Measured> {
  const { rowCounts, budgetSeconds, targetSeconds, rounds } = options;
  const end = performance.now() + budgetSeconds * 1000;
  const pairs = new ProbePairs(probe, options);
  const timings: KernelTiming[] = [];
  try {
    const { device } = (await pairs.open(1)).all.info;
    let before: { readonly rows: number; readonly look: FirstLook } | undefined;
    for (const rows of rowCounts) {
      // A first look and one round; with less there would be no figure.
      const left = (end - performance.now()) / 1000;
      if (before && 2 * scaled(before.look, rows / before.rows) > left)
        return { timings, device, skipped: `${rows} rows and more would take too long here` };
      const batch = probe.batch(rows);
      const look = await firstLook(await pairs.open(1), batch, options);
      before = { rows, look };
      const copies = powerOfTwo(Math.min(probe.maxCopies, targetSeconds / look.kernelSeconds));
      const roundSeconds = scaled(look, copies);
      const share = (end - performance.now()) / 1000 / (rowCounts.length - rowCounts.indexOf(rows));
      const roundCount = Math.max(1, Math.min(rounds, Math.floor(share / roundSeconds)));
      const times = await timeRounds(await pairs.open(copies), batch, roundCount, options);
      timings.push({
        ...{ kernel: probe.kernel, format: probe.format, rows, copies, rounds: roundCount, work: probe.work(rows) },
        fast: secondsOf(times, 'fast', copies),
        canonical: secondsOf(times, 'canonical', copies),
      });
    }
    return { timings, device };
  } finally {
    await pairs.close();
  }
}

type ProbePair = Readonly<Record<ProbePart, Backend>>;

/** Backends with an operation and without it, by how often their plan has it. */
class ProbePairs {
  readonly #probe: KernelProbe;
  readonly #options: MeasureOptions;
  readonly #weights = probeWeights();
  readonly #open = new Map<number, ProbePair>();

  constructor(probe: KernelProbe, options: MeasureOptions) {
    this.#probe = probe;
    this.#options = options;
  }

  async open(copies: number): Promise<ProbePair> {
    const found = this.#open.get(copies);
    if (found) return found;
    const all = await this.#load(copies, 'all');
    try {
      const pair = { all, rest: await this.#load(copies, 'rest') };
      this.#open.set(copies, pair);
      return pair;
    } catch (error) {
      await all.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    for (const { all, rest } of this.#open.values()) {
      await all.close();
      await rest.close();
    }
    this.#open.clear();
  }

  async #load(copies: number, part: ProbePart): Promise<Backend> {
    const { backends, rowCounts } = this.#options;
    const maxRows = Math.max(BLOCK_SIZE, ...rowCounts);
    const backend = await backends.create({
      plan: this.#probe.plan(copies, part),
      weights: this.#weights,
      ...{ blockSize: BLOCK_SIZE, blockCount: this.#probe.blockCount(maxRows), maxRows },
    });
    for (const batch of this.#probe.context?.(maxRows) ?? []) await backend.forward({ canonical: batch });
    return backend;
  }
}

interface FirstLook {
  /** Of one run of the operation, in the slower schedule; above 0. */
  readonly kernelSeconds: number;
  /** Of one round of samples, by the wall. */
  readonly roundSeconds: number;
}

async function firstLook(pair: ProbePair, batch: Batch, options: MeasureOptions): Promise<FirstLook> {
  // The first forward of a shape also makes room for it.
  await timeRounds(pair, batch, 1, options);
  const start = performance.now();
  const times = await timeRounds(pair, batch, 1, options);
  const roundSeconds = (performance.now() - start) / 1000;
  // What one disturbed sample says would choose too few copies.
  const more = Math.min(LOOKS - 1, Math.floor(LOOK_SECONDS / roundSeconds));
  const others = await timeRounds(pair, batch, more, options);
  for (const schedule of SCHEDULES) for (const part of PARTS) times[schedule][part].push(...others[schedule][part]);
  const seconds = SCHEDULES.map((schedule) => secondsOf(times, schedule, 1).best);
  return { kernelSeconds: Math.max(1e-6, ...seconds), roundSeconds };
}

/** Seconds of a round whose operations take so many times longer; what else it costs stays as it is. */
function scaled({ roundSeconds, kernelSeconds }: FirstLook, times: number): number {
  return roundSeconds + SCHEDULES.length * kernelSeconds * (times - 1);
}

/** Seconds of a forward, of all rounds. */
type Times = Readonly<Record<keyof Step, Readonly<Record<ProbePart, number[]>>>>;

/** The two schedules, with the operation and without it, take turns. */
async function timeRounds(
  pair: ProbePair,
  batch: Batch,
  rounds: number,
  { backends: { clock } }: Pick<MeasureOptions, 'backends'>,
): Promise<Times> {
  const times = { fast: { all: [], rest: [] }, canonical: { all: [], rest: [] } } satisfies Times as Times;
  for (let round = 0; round < rounds; round++) {
    for (const part of PARTS) {
      for (const schedule of SCHEDULES) {
        const forward = () => pair[part].forward({ [schedule]: batch });
        let best = Number.POSITIVE_INFINITY;
        const end = performance.now() + SAMPLE_SECONDS * 1000;
        do best = Math.min(best, await clock.seconds(forward));
        while (performance.now() < end);
        times[schedule][part].push(best);
      }
    }
  }
  return times;
}

function secondsOf(times: Times, schedule: keyof Step, copies: number): KernelSeconds {
  const { all, rest } = times[schedule];
  return {
    best: (Math.min(...all) - Math.min(...rest)) / copies,
    median: (median(all) - median(rest)) / copies,
  };
}

/** The largest one that is not above a number, and at least 1. */
function powerOfTwo(most: number): number {
  return 2 ** Math.max(0, Math.floor(Math.log2(most)));
}

/** Whether a backend does not have what a probe measures, e.g. a format. */
export function isUnsupported(error: unknown): error is Error {
  return isStetError(error) && error.code === 'STET_ERR_UNSUPPORTED';
}
