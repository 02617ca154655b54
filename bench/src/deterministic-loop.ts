import type { GenerateRequest, StetEngine } from '@stet/engine';
import { type LoopStream, runClosedLoop } from './closed-loop.js';
import type { StudyModel } from './study/study-model.js';
import { textSlice } from './text-slices.js';

/** What streams of deterministic requests measured. Counts are of one answer each. */
export type DeterministicMeasure = {
  /** Of all streams. */
  readonly tokensPerSecond: number;
  readonly outputTokens: number;
  readonly windows: number;
  readonly rollbacks: number;
  readonly recomputedTokens: number;
  /** Hashes of the answers' tokens, in the order of streams. */
  readonly outputHashes: readonly string[];
};

export interface DeterministicLoop {
  readonly model: StudyModel;
  readonly streams: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Of prompts and draws: loops of one seed ask the same. */
  readonly seed: number;
}

/**
 * A closed loop in which every stream has one measured answer, after another of its own length so that they are all at
 * different places, and goes on until all are there. Half of the streams are greedy, half of them sample.
 */
export async function deterministicLoop(engine: StetEngine, loop: DeterministicLoop): Promise<DeterministicMeasure> {
  const outputHashes: string[] = [];
  const sums = { outputTokens: 0, windows: 0, rollbacks: 0, recomputedTokens: 0 };
  const streams = Array.from(
    { length: loop.streams },
    (_, stream): LoopStream => ({
      role: 'measured',
      request: (index) => requestOf(loop, stream, index),
      onEvent: (index, event) => {
        if (index !== 1 || event.type !== 'done') return;
        outputHashes[stream] = event.receipt!.outputHash;
        sums.outputTokens += event.usage.completionTokens;
        sums.windows += event.stats.windows;
        sums.rollbacks += event.stats.rollbacks;
        sums.recomputedTokens += event.stats.recomputedTokens;
      },
    }),
  );
  const { tokensPerSecond } = await runClosedLoop(engine, streams, 1);
  return { tokensPerSecond, ...sums, outputHashes };
}

function requestOf(loop: DeterministicLoop, stream: number, index: number): GenerateRequest {
  const { model, streams, promptTokens, outputTokens, seed } = loop;
  const number = index * streams + stream;
  return {
    promptTokens: textSlice(model, promptTokens, seed, number),
    maxTokens: index === 0 ? Math.ceil((outputTokens * (stream + 1)) / streams) : outputTokens,
    temperature: stream % 2 === 0 ? 0 : 0.8,
    seed: number,
    ignoreEos: true,
    deterministic: true,
  };
}

/** Rollbacks in a thousand tokens, and tokens thrown away over those that stayed. */
export function rollbackShares(measures: readonly DeterministicMeasure[]): {
  readonly perThousand: number;
  readonly recomputed: number;
} {
  const sum = (count: (measure: DeterministicMeasure) => number) => measures.reduce((all, one) => all + count(one), 0);
  const tokens = sum(({ outputTokens }) => outputTokens);
  return {
    perThousand: (1000 * sum(({ rollbacks }) => rollbacks)) / tokens,
    recomputed: sum(({ recomputedTokens }) => recomputedTokens) / tokens,
  };
}

/** How many answers of `others` are not those of `truth`, position by position. */
export function differingAnswers(truth: DeterministicMeasure, others: readonly DeterministicMeasure[]): number {
  const differing = ({ outputHashes }: DeterministicMeasure) =>
    truth.outputHashes.filter((hash, stream) => hash !== outputHashes[stream]).length;
  return others.reduce((count, one) => count + differing(one), 0);
}
