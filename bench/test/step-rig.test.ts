import { describe, expect, it } from 'vitest';
import { type StepCase, StepRig } from '../src/step-rig.js';

const one: StepCase = { running: 6, context: 100, sampling: 'greedy', vocabSize: 512, steps: 64 };

describe.each(['greedy', 'sampled'] as const)('the rig of the step benchmark, %s', (sampling) => {
  it('keeps all sequences running to the last measured step and verifies without a rollback', async () => {
    const rig = await StepRig.create({ ...one, sampling });
    const before = rig.scheduler.stats();
    expect(before).toMatchObject({ running: one.running, waiting: 0, committedTokens: one.running });
    for (let i = 0; i < one.steps; i++) {
      const times = await rig.step();
      for (const part of [times?.plan, times?.check, times?.apply]) expect(part).toBeGreaterThanOrEqual(0);
    }
    const after = rig.scheduler.stats();
    expect(after).toMatchObject({ running: one.running, rollbacks: 0, preemptions: 0 });
    // Ordinary sequences commit a token a step; deterministic ones 17 in 17 steps, 3 windows of them by now.
    const deterministic = one.running / 2;
    expect(after.windows).toBe(3 * deterministic);
    expect(after.committedTokens - before.committedTokens).toBe(deterministic * one.steps + deterministic * 3 * 17);
    rig.scheduler.check();
  });

  it('gives every sequence blocks of its own', async () => {
    const rig = await StepRig.create({ ...one, sampling });
    expect(rig.scheduler.stats().kv).toMatchObject({ held: one.running * Math.ceil(101 / 16), hits: 0 });
  });
});
