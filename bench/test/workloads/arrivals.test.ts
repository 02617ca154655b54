import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arrivalTimes } from '../../src/workloads/arrivals.js';

describe('arrivals', () => {
  it('are all at 0 at the infinite rate', () => {
    expect(arrivalTimes({ kind: 'at once' }, 3, 1)).toEqual([0, 0, 0]);
  });

  it('of a Poisson process ascend from 0, and a seed makes them again', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 200 }),
        fc.double({ min: 0.01, max: 1000, noNaN: true }),
        fc.nat(),
        (count, qps, seed) => {
          const times = arrivalTimes({ kind: 'poisson', qps }, count, seed);
          expect(times).toHaveLength(count);
          expect(times[0]).toBe(0);
          for (let i = 1; i < count; i++) expect(times[i]).toBeGreaterThanOrEqual(times[i - 1]!);
          expect(arrivalTimes({ kind: 'poisson', qps }, count, seed)).toEqual(times);
        },
      ),
    );
  });

  it('of a Poisson process have the mean and the spread of one', () => {
    const times = arrivalTimes({ kind: 'poisson', qps: 20 }, 20_001, 5);
    const gaps = times.slice(1).map((time, i) => time - times[i]!);
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length;
    expect(mean / 50).toBeCloseTo(1, 1);
    expect(Math.sqrt(variance) / mean).toBeCloseTo(1, 1);
  });
});
