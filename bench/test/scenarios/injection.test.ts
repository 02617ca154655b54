import { cpuFeatures } from '@stet/backend-cpu';
import { describe, expect, it } from 'vitest';
import {
  type DeterministicMeasure,
  deterministicLoop,
  differingAnswers,
  rollbackShares,
} from '../../src/deterministic-loop.js';
import { injection } from '../../src/scenarios/injection.js';
import type { Unit } from '../../src/study/scenario.js';
import { inSmallStudy, study } from './support/small-study.js';

const cpu = cpuFeatures();
const units = (await injection.units(study)) as readonly Unit<DeterministicMeasure>[];
const measure: DeterministicMeasure = {
  tokensPerSecond: 100,
  outputTokens: 192,
  windows: 16,
  rollbacks: 0,
  recomputedTokens: 0,
  outputHashes: Array.from({ length: 8 }, (_, i) => `hash ${i}`),
};
const measured = (change: (key: string) => Partial<DeterministicMeasure>) =>
  new Map(units.map(({ key }) => [key, { ...measure, ...change(key) }]));

describe('the result of injection', () => {
  it('tells what a policy keeps of its own throughput, round by round', () => {
    const { findings, tables, failure } = injection.result(
      measured((key) => {
        const slow = key.endsWith('round 2') ? 10 : 1;
        return { tokensPerSecond: (key.startsWith('dvr, 100 %') ? 25 : 100) / slow };
      }),
      study,
    );
    expect(findings[1]).toMatch(/`dvr` keeps 1 at 1 %, 1 at 20 %, 0.25 at 100 % injected/);
    const row = tables[0]!.rows.find(({ policy, injected }) => policy === 'dvr' && injected === '100 %')!;
    expect(row).toMatchObject({ 'of rate 0': 0.25, 'of canonical rows alone': 0.25 });
    expect(failure).toBeUndefined();
  });

  it('fails where an injected mismatch changed an answer', () => {
    const { failure } = injection.result(
      measured((key) => (key === 'auto, 1 %, round 0' ? { outputHashes: measure.outputHashes.toReversed() } : {})),
      study,
    );
    expect(failure).toBe(`8 of ${(units.length - 3) * 8} answers are not those of canonical rows alone`);
  });
});

describe.skipIf(!cpu.available)(`deterministic loops${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`, () => {
  it('give the answers of canonical rows alone however many mismatches are injected, which they count', async () => {
    const [truth, wrong] = await inSmallStudy(async (context) => {
      const loop = { model: context.model, streams: 3, promptTokens: 8, outputTokens: 12, seed: 1 };
      const direct = await deterministicLoop(await context.engine({ policy: 'direct' }), loop);
      const dvr = { policy: { dvr: { windowTokens: 4 } }, mismatchRate: 0.5 } as const;
      return [direct, await deterministicLoop(await context.engine(dvr), loop)];
    });
    expect(truth).toMatchObject({ outputTokens: 36, windows: 0, rollbacks: 0, recomputedTokens: 0 });
    expect(new Set(truth!.outputHashes).size).toBe(3);
    expect(wrong!.outputHashes).toEqual(truth!.outputHashes);
    expect(wrong!.rollbacks).toBeGreaterThan(0);
    expect(wrong!.recomputedTokens).toBeGreaterThanOrEqual(wrong!.rollbacks);
    expect(differingAnswers(truth!, [wrong!, measure])).toBe(3);
    expect(rollbackShares([truth!, wrong!]).perThousand).toBeCloseTo((1000 * wrong!.rollbacks) / 72, 9);
  });
});
