import { describe, expect, it } from 'vitest';
import { tokensPerMs } from '../src/auto-policy.js';
import { auto, CostModel, type CostPoint, direct, dvr, type StepView } from '../src/index.js';
import { answer, request } from './rig.js';

/** Times of a schedule: a pass costs `pass` ms, a row `row` ms. */
const line = (schedule: CostPoint['schedule'], pass: number, row: number): CostPoint[] =>
  [1, 4, 16, 64, 256].map((rows) => ({ schedule, rows, elapsedMs: pass + row * rows }));
const calibrated = (fast: [number, number], canonical: [number, number]) => [
  ...line('fast', ...fast),
  ...line('canonical', ...canonical),
];
const view = { candidateCount: 0, heldMs: 0, smallestGap: Number.POSITIVE_INFINITY, canonicalPass: 'none' } as const;

describe('cost model', () => {
  it('gives back what was measured, and lines between', () => {
    const model = new CostModel(calibrated([4, 0.5], [6, 1]));
    for (const rows of [1, 4, 16, 64, 256]) expect(model.stepMs(rows, 0)).toBeCloseTo(4 + 0.5 * rows, 9);
    expect(model.stepMs(0, 10)).toBeCloseTo(16, 1);
    expect(model.stepMs(0, 512)).toBeCloseTo(518, 0);
    expect(model.stepMs(0, 0)).toBe(0);
  });

  it('learns from steps of one schedule, and what both together save', () => {
    const model = new CostModel(calibrated([1, 1], [1, 1]));
    for (let i = 0; i < 100; i++) model.observe({ fastRows: 8, canonicalRows: 0, elapsedMs: 18 });
    expect(model.stepMs(8, 0)).toBeCloseTo(18, 0);
    for (let i = 0; i < 100; i++) model.observe({ fastRows: 8, canonicalRows: 4, elapsedMs: 14 });
    expect(model.stepMs(8, 4)).toBeCloseTo(14, 0);
    model.observe({ fastRows: 8, canonicalRows: 0, elapsedMs: 0 });
    expect(model.stepMs(8, 0)).toBeCloseTo(18, 0);
  });

  it('is not thrown off by one hiccup', () => {
    const model = new CostModel(calibrated([1, 1], [1, 1]));
    model.observe({ fastRows: 16, canonicalRows: 0, elapsedMs: 100_000 });
    expect(model.stepMs(16, 0)).toBeLessThan(17 * 1.2);
  });

  it('has a shape before any measurement', () => {
    const model = new CostModel();
    expect(model.stepMs(1, 0)).toBeLessThan(model.stepMs(64, 0));
    expect(model.stepMs(64, 0)).toBeLessThan(64 * model.stepMs(1, 0));
  });
});

describe('auto policy', () => {
  const decideFor = (calibration: CostPoint[], step: StepView, mismatchRate = 0) => {
    const policy = auto({ calibration });
    for (let i = 0; i < 300 && mismatchRate > 0; i++) {
      policy.observe!({
        fastRows: 1,
        canonicalRows: 0,
        elapsedMs: 0,
        prefillRows: 0,
        committedTokens: 0,
        verifiedCandidates: 10,
        mismatches: 10 * mismatchRate,
      });
    }
    policy.survey!(step);
    return policy.decide(view) === 'verify' ? 'direct' : 'windows';
  };
  const quickFast = calibrated([0.1, 0.1], [10, 0.1]);

  it('decodes directly where the canonical pass is as quick as the fast one', () => {
    expect(decideFor(calibrated([1, 0.1], [1, 0.1]), { ordinaryCount: 0, deterministicCount: 4 })).toBe('direct');
  });

  it('uses windows where a canonical pass is dear and its rows are cheap', () => {
    expect(decideFor(quickFast, { ordinaryCount: 0, deterministicCount: 1 })).toBe('windows');
    expect(decideFor(quickFast, { ordinaryCount: 40, deterministicCount: 4 })).toBe('windows');
  });

  it('gives windows up where most candidates are wrong', () => {
    expect(decideFor(quickFast, { ordinaryCount: 0, deterministicCount: 1 }, 1)).toBe('direct');
  });

  it('leaves a way that does not keep what the model promises, and tries it again much later', () => {
    const policy = auto({ calibration: quickFast });
    const step = { ordinaryCount: 0, deterministicCount: 8 };
    const outcome = { fastRows: 8, canonicalRows: 0, elapsedMs: 10, prefillRows: 0, committedTokens: 1 };
    const way = () => {
      policy.survey!(step);
      return policy.decide({ ...view, candidateCount: 1 }) === 'verify' ? 'direct' : 'windows';
    };
    expect(way()).toBe('windows');
    const ways: string[] = [];
    for (let i = 0; i < 20_000; i++) {
      // Windows bring a tenth of a token a millisecond, direct rows eight tokens in ten.
      const committedTokens = way() === 'direct' ? 8 : 1;
      policy.observe!({ ...outcome, committedTokens, verifiedCandidates: 0, mismatches: 0 });
      ways.push(way());
    }
    expect(ways[1000]).toBe('direct');
    expect(ways.slice(1000).filter((one) => one === 'windows').length).toBeLessThan(2000);
  });

  it('is never slower, by its own model, than the better of direct and windows of 16', () => {
    for (const calibration of [quickFast, calibrated([1, 0.1], [2, 0.4]), calibrated([1, 0.02], [1, 0.5])]) {
      const model = new CostModel(calibration);
      for (const step of [1, 4, 30].flatMap((d) =>
        [0, 3, 50].map((o) => ({ ordinaryCount: o, deterministicCount: d })),
      )) {
        const speeds = [0, 2, 4, 8, 16, 32].map((w) => tokensPerMs(model, step, 0.005, w));
        const chosen = decideFor(calibration, step) === 'direct' ? speeds[0]! : Math.max(...speeds.slice(1));
        expect(chosen * 1.16).toBeGreaterThan(Math.max(...speeds));
      }
    }
  });

  it('verifies a window for a near tie, a candidate held too long, or a pass that runs anyway', () => {
    const policy = auto({ calibration: quickFast, maxHoldMs: 50, nearTieGap: 0.1 });
    policy.survey!({ ordinaryCount: 0, deterministicCount: 1 });
    const waiting = { ...view, candidateCount: 20 };
    expect(policy.decide({ ...view, candidateCount: 1 })).toBe('decode');
    expect(policy.decide({ ...view, candidateCount: 1, smallestGap: 0.05 })).toBe('verify');
    expect(policy.decide({ ...view, candidateCount: 1, heldMs: 50 })).toBe('verify');
    expect(policy.decide(waiting)).toBe('decode');
    expect(policy.decide({ ...waiting, canonicalPass: 'planned' })).toBe('verify');
  });

  it('gives the answers of every other policy', async () => {
    const make = () =>
      [1, 2, 3, 4, 5].map((i) => request({ id: `a${i}`, prompt: [i, 9, 2 * i], maxTokens: 40, topLogprobs: 1 }));
    for (const policy of [auto(), auto({ calibration: quickFast }), dvr({ nearTieGap: 0.5 }), direct()]) {
      await answer({ fake: { mismatchRate: 0.1 }, config: { policy } }, make());
    }
  });

  it('verifies near ties earlier than their window', async () => {
    const windows = async (nearTieGap: number) => {
      const rig = await answer({ config: { policy: dvr({ windowTokens: 30, nearTieGap }) } }, [
        request({ maxTokens: 90 }),
      ]);
      return rig.scheduler.stats().windows;
    };
    expect(await windows(2)).toBeGreaterThan(await windows(0));
  });
});
