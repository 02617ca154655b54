import type { WeightFormat } from '../plan.js';
import type { Backend, BackendFactory, BackendLoad } from '../port.js';
import { feed, prefixSums, type RowAnswer } from './drive.js';
import { ConformanceFailure, fail } from './equal-bits.js';
import type { ConformanceModel } from './models.js';
import { random } from './random.js';

/** One promise of the port, checked on a backend without any test framework. */
export interface ConformanceCase {
  /** `isolation`, `overwrite`, … */
  readonly group: string;
  /** A sentence; unique. */
  readonly name: string;
  /** Whether it runs on every model or brings what it needs. */
  readonly scope: 'eachModel' | 'once';
  /** Weight formats that it needs, besides those of the model; none by default. */
  readonly formats?: readonly WeightFormat[];
  /** What a caller must give for it to run. */
  readonly needs?: 'liveBytes';
  /** Rejects with a `ConformanceFailure`, or with what the backend rejected with. */
  run(context: ConformanceContext): Promise<void>;
}

export interface ConformanceContext {
  readonly model: ConformanceModel;
  /** Token sequences of lengths {@link sequenceLengths}. */
  readonly sequences: readonly (readonly number[])[];
  /** Bytes that all backends hold now. */
  readonly liveBytes: () => number;
  readonly factory: BackendFactory;
  /** A backend that is closed after the case; its sizes default to {@link defaultSizes}, its model to the context's. */
  load(options?: Partial<BackendLoad>): Promise<Backend>;
  /** The canonical answers of sequence i run alone in blocks 1, 2, … on a backend of its own; computed once a suite. */
  solo(index: number): Promise<readonly RowAnswer[]>;
  /** The same for any tokens; not kept. */
  soloOf(tokens: readonly number[]): Promise<readonly RowAnswer[]>;
}

/** Around blocks of 16, attention chunks of 64, and a single token. */
export const sequenceLengths = [75, 33, 16, 17, 1, 40] as const;

export const defaultSizes = { blockSize: 16, blockCount: 40, maxRows: 192 } as const;

/** A factory with a model, and what is computed once for all cases on it. */
export interface ConformanceSuite {
  readonly factory: BackendFactory;
  readonly model: ConformanceModel;
  readonly liveBytes?: () => number;
  readonly solos: Map<number, Promise<readonly RowAnswer[]>>;
}

export function conformanceSuite(
  factory: BackendFactory,
  model: ConformanceModel,
  liveBytes?: () => number,
): ConformanceSuite {
  return { factory, model, solos: new Map(), ...(liveBytes && { liveBytes }) };
}

/** Runs a case and closes its backends, whatever happens. Rejects with a `ConformanceFailure` that names case and model. */
export async function runCase(testCase: ConformanceCase, suite: ConformanceSuite): Promise<void> {
  const open: Backend[] = [];
  try {
    await testCase.run(contextOf(suite, open));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new ConformanceFailure(`${caseName(testCase)} [${suite.model.name}]: ${message}`, { cause: error });
  } finally {
    for (const backend of open) await backend.close();
  }
}

export function caseName(testCase: ConformanceCase): string {
  return `${testCase.group}: ${testCase.name}`;
}

function contextOf(suite: ConformanceSuite, open: Backend[]): ConformanceContext {
  const { factory, model, solos } = suite;
  const { vocabSize, contextLength } = model.plan;
  const draw = random(vocabSize);
  const sequences = sequenceLengths.map((length) => {
    if (length >= contextLength) fail(`a model for the suite needs a context longer than ${length}`);
    return Array.from({ length }, () => draw.between(0, vocabSize - 1));
  });
  const load = async (options: Partial<BackendLoad> = {}): Promise<Backend> => {
    const backend = await factory({ plan: model.plan, weights: model.weights, ...defaultSizes, ...options });
    open.push(backend);
    return backend;
  };
  const soloOf = async (tokens: readonly number[]): Promise<readonly RowAnswer[]> => {
    const backend = await factory({ plan: model.plan, weights: model.weights, ...defaultSizes });
    try {
      return await feed(backend, 'canonical', { tokens, blocks: blocksFor(tokens.length, 1) });
    } finally {
      await backend.close();
    }
  };
  const solo = (index: number): Promise<readonly RowAnswer[]> => {
    const known = solos.get(index) ?? soloOf(sequences[index]!);
    solos.set(index, known);
    return known;
  };
  const liveBytes = suite.liveBytes ?? (() => fail('this case needs liveBytes'));
  return { model, sequences, liveBytes, factory, load, solo, soloOf };
}

/** Ids of as many blocks as hold `length` positions, from `first` on. */
export function blocksFor(length: number, first: number, blockSize: number = defaultSizes.blockSize): number[] {
  return Array.from({ length: Math.ceil(length / blockSize) }, (_, i) => first + i);
}

/** Adjacent block tables for all sequences, the ids in the order that `order` gives them. */
export function tablesFor(
  sequences: readonly (readonly number[])[],
  order: (ids: number[]) => number[] = (ids) => ids,
  blockSize: number = defaultSizes.blockSize,
): number[][] {
  const lengths = sequences.map((tokens) => Math.ceil(tokens.length / blockSize));
  const starts = prefixSums(lengths);
  const ids = order(Array.from({ length: starts.at(-1)! }, (_, i) => i + 1));
  return lengths.map((length, i) => ids.slice(starts[i]!, starts[i]! + length));
}
