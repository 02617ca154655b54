import { describe, expect, it } from 'vitest';
import type { DeterministicMeasure } from '../../src/deterministic-loop.js';
import { windows } from '../../src/scenarios/windows.js';
import type { Unit } from '../../src/study/scenario.js';
import { study } from './support/small-study.js';

const units = (await windows.units(study)) as readonly Unit<DeterministicMeasure>[];
const measure: DeterministicMeasure = {
  tokensPerSecond: 100,
  outputTokens: 2048,
  windows: 128,
  rollbacks: 0,
  recomputedTokens: 0,
  outputHashes: Array.from({ length: 16 }, (_, i) => `hash ${i}`),
};
/** Every unit's, one of them changed. */
const measured = (change: (key: string) => Partial<DeterministicMeasure>) =>
  new Map(units.map(({ key }) => [key, { ...measure, ...change(key) }]));

describe('windows and groups', () => {
  it('are measured in all combinations, in every round', () => {
    const first = units.filter(({ key }) => key.endsWith('round 0')).map(({ key }) => key);
    for (const window of [4, 16, 64])
      for (const group of [1, 4, 16]) expect(first).toContain(`window ${window}, group ${group}, round 0`);
    expect(units).toHaveLength(2 * first.length);
  });

  it('are compared in their own round, so that a slow one slows nobody down', () => {
    const result = windows.result(
      measured((key) => {
        const rate = key.startsWith('window 16, group 4') ? 200 : 100;
        return { tokensPerSecond: key.endsWith('round 1') ? rate / 10 : rate };
      }),
      study,
    );
    const quickest = result.tables[0]!.rows.filter((row) => row['of the quickest'] === 1);
    expect(quickest).toHaveLength(1);
    expect(quickest[0]).toMatchObject({ window: 16, group: 4 });
    expect(result.tables[0]!.rows[0]!['of the quickest']).toBe(0.5);
    expect(result.findings[0]).toMatch(/^Quickest are windows of 16 in groups of 4/);
  });

  it('are drawn with the largest group at the top and windows in their order', () => {
    const [chart] = windows.result(
      measured(() => ({})),
      study,
    ).charts;
    expect([...new Set(chart!.rows.map(({ group }) => group))]).toEqual([16, 4, 1]);
    expect([...new Set(chart!.rows.map(({ window }) => window))]).toEqual([4, 16, 64]);
  });

  it('say that nothing was computed in vain where nothing was', () => {
    const result = windows.result(
      measured(() => ({})),
      study,
    );
    expect(result.findings[1]).toMatch(/^No verification rolled anything back/);
    expect(result.failure).toBeUndefined();
  });

  it('tell recomputed tokens as a share of the output, and the worst group beside the paper', () => {
    const result = windows.result(
      measured((key) => (key.startsWith('window 64, group 4') ? { rollbacks: 4, recomputedTokens: 512 } : {})),
      study,
    );
    const row = result.tables[0]!.rows.find(({ window, group }) => window === 64 && group === 4)!;
    expect(row['recomputed, % of output']).toBe(25);
    expect(row['rollbacks per 1000 tokens']).toBe(rounded(4000 / 2048));
    expect(result.comparisons!.find(({ what }) => what.includes('windows of 64'))!.ours).toBe(0.25);
    expect(result.comparisons!.find(({ what }) => what.includes('windows of 16,'))!.ours).toBe(0);
  });

  it('fail where an answer depends on one', () => {
    const result = windows.result(
      measured((key) =>
        key === 'window 64, group 16, round 1' ? { outputHashes: ['another', ...measure.outputHashes.slice(1)] } : {},
      ),
      study,
    );
    expect(result.failure).toBe(`1 of ${units.length * 16} answers depend on the window or the group`);
    expect(result.comparisons!.at(-1)!.ours).toBeGreaterThan(0);
  });
});

function rounded(value: number): number {
  return Number(value.toFixed(3));
}
