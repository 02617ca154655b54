import { describe, expect, it } from 'vitest';
import type { EngineLimits } from '../src/index.js';
import { fakeEngine, readAll } from './helpers.js';

const PROMPT = Array.from({ length: 390 }, (_, i) => i % 200);

/** The largest canonical batch of a deterministic request with that prompt, and its receipt. */
async function largestBatch(limits: Partial<EngineLimits>) {
  await using fake = await fakeEngine({ contextLength: 512, engine: { limits } });
  let most = 0;
  fake.engine.observe({
    onStep: ({ canonicalRows }) => {
      most = Math.max(most, canonicalRows);
    },
    onCommit: () => {},
    onEnd: () => {},
    onRefused: () => {},
  });
  const { done } = await readAll(
    fake.engine.generate({ promptTokens: PROMPT, deterministic: true, seed: 1, maxTokens: 4, ignoreEos: true }),
  );
  return { most, hash: done.receipt!.outputHash };
}

describe('rows of the canonical batch', () => {
  it('are as many as a batch has, unless they are bounded by themselves; no bound changes an answer', async () => {
    const whole = await largestBatch({ maxRows: 400 });
    const bounded = await largestBatch({ maxRows: 400, maxCanonicalRows: 100 });
    const wide = await largestBatch({ maxRows: 50, maxCanonicalRows: 100 });
    expect([whole.most, bounded.most, wide.most]).toEqual([390, 100, 50]);
    expect([bounded.hash, wide.hash]).toEqual([whole.hash, whole.hash]);
  });
});
