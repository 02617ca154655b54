import { describe, expect, it } from 'vitest';
import { fakeEngine } from '../../../packages/engine/test/helpers.js';
import { compareAnswers } from '../src/demo/compare.js';
import { Random } from '../src/demo/random.js';
import { describeDemo, isDeterministic, summarize } from '../src/demo/report.js';
import { type DemoScale, runDemo } from '../src/demo/run-demo.js';
import type { TrialResult } from '../src/demo/trial.js';
import { randomCrowd } from '../src/demo/workload.js';

const SCALE: DemoScale = {
  ...{ crowds: [0, 3, 8], repetitions: 3, outputTokens: 60 },
  ...{ throughputRepetitions: 1, throughputTokens: 8 },
};

async function demoOn(options: Parameters<typeof fakeEngine>[0], crowdSeed: number) {
  const lines: string[] = [];
  await using fake = await fakeEngine({ ...options, contextLength: 512, engine: { kv: { blockCount: 400 } } });
  const { signal } = new AbortController();
  const onProgress = (line: string) => lines.push(line);
  const result = await runDemo(fake.engine, { scale: SCALE, crowdSeed, signal, onProgress });
  const { running, waiting, blocks } = fake.engine.stats();
  expect({ running, waiting, held: blocks.held }).toEqual({ running: 0, waiting: 0, held: 0 });
  return { result, summary: summarize(result), lines };
}

describe('the demo', () => {
  it('finds equal deterministic answers and different ordinary ones where the fast kernels depend on the batch', async () => {
    const { result, summary, lines } = await demoOn({ mismatchRate: 0.2 }, 1);
    expect(summary.deterministic).toEqual({ runs: 9, distinct: 1, distinctLogprobs: 1 });
    expect(summary.ordinary.runs).toBe(9);
    expect(summary.ordinary.distinct).toBeGreaterThan(1);
    expect(summary.ordinary.firstDifference).toBeGreaterThanOrEqual(0);
    expect(summary.windows).toBeGreaterThan(0);
    expect(summary.rollbacks).toBeGreaterThan(0);
    expect(summary.recomputedTokens).toBeGreaterThanOrEqual(summary.rollbacks);
    expect(isDeterministic(summary)).toBe(true);
    expect(describeDemo(result)).toMatch(/gave the same tokens and log-probabilities, bit for bit, in all 9 runs/);
    expect(lines.length).toBe(18 + 3);
  });

  it('says so where ordinary answers happen not to differ', async () => {
    const { result, summary } = await demoOn({ mismatchRate: 0, fastKvDeviates: false }, 2);
    expect(summary.ordinary).toEqual({ runs: 9, distinct: 1, firstDifference: null });
    expect(describeDemo(result)).toContain('happened to give the same tokens in all 9 runs');
  });

  it('fails where a canonical schedule depends on the batch', async () => {
    const { result, summary } = await demoOn({ fault: 'batchDependent' }, 3);
    expect(summary.deterministic.distinct).toBeGreaterThan(1);
    expect(isDeterministic(summary)).toBe(false);
    expect(describeDemo(result)).toContain('FAILED');
  });

  it('draws another crowd for each trial, and the same ones again from the same seed', () => {
    const random = new Random(7);
    const [first, second] = [randomCrowd(random, 10, 100, 50), randomCrowd(random, 10, 100, 50)];
    expect(first).not.toEqual(second);
    expect(randomCrowd(new Random(7), 10, 100, 50)).toEqual(first);
  });
});

describe('a comparison', () => {
  const result = (tokens: number[], logprobBits = ''): TrialResult => ({
    ...{ tokens, logprobBits, durationMs: 1, windows: 0, rollbacks: 0, recomputedTokens: 0, rowsPerStep: 1 },
  });

  it('finds the first index at which any two answers differ, also where one is shorter', () => {
    expect(compareAnswers([result([1, 2, 3]), result([1, 2, 3])])).toMatchObject({
      distinct: 1,
      firstDifference: null,
    });
    expect(compareAnswers([result([1, 2, 3]), result([1, 2, 4]), result([1, 9, 4])])).toMatchObject({
      ...{ runs: 3, distinct: 3, firstDifference: 1 },
    });
    expect(compareAnswers([result([1, 2]), result([1, 2, 3])])).toMatchObject({ distinct: 2, firstDifference: 2 });
  });

  it('counts log-probabilities by their bits, also where the tokens agree', () => {
    const comparison = compareAnswers([result([1], '0'), result([1], '1')]);
    expect(comparison).toMatchObject({ distinct: 1, distinctLogprobs: 2 });
    const { distinct, distinctLogprobs, runs } = comparison;
    const summary = { deterministic: { runs, distinct, distinctLogprobs } } as Parameters<typeof isDeterministic>[0];
    expect(isDeterministic(summary)).toBe(false);
  });
});
