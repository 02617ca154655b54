import { describe, expect, it } from 'vitest';
import { seededNormal, seededUniform } from '../src/random.js';
import { median, percentile, rounded } from '../src/stats.js';

describe('percentiles', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => (i * 37) % 100);

  it('are values that occur, by nearest rank', () => {
    expect(percentile(hundred, 0.99)).toBe(98);
    expect(percentile(hundred, 0.5)).toBe(49);
    expect(percentile([3, 1, 2], 0.5)).toBe(2);
    expect(percentile([10, 20, 30, 40], 0.75)).toBe(30);
    expect(percentile([10, 20, 30, 40], 0.76)).toBe(40);
  });

  it('are the smallest value at 0 and the largest at 1', () => {
    expect(percentile(hundred, 0)).toBe(0);
    expect(percentile(hundred, 1)).toBe(99);
    expect(percentile([5], 0.99)).toBe(5);
  });

  it('order numbers as numbers and leave the values as they are', () => {
    const values = [100, 9, 20];
    expect(median(values)).toBe(20);
    expect(values).toEqual([100, 9, 20]);
  });

  it('of nothing are refused', () => {
    expect(() => percentile([], 0.5)).toThrow(RangeError);
  });
});

it('rounds to decimals', () => {
  expect(rounded(1.2345, 2)).toBe(1.23);
  expect(rounded(1.5, 0)).toBe(2);
});

describe('seeded numbers', () => {
  it('repeat for a seed and differ between seeds', () => {
    const draw = (seed: number) => Array.from({ length: 8 }, seededUniform(seed));
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });

  it('are uniform in 0 .. 1 and normal with mean 0 and deviation 1', () => {
    const count = 20_000;
    const uniform = Array.from({ length: count }, seededUniform(3));
    expect(Math.min(...uniform)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...uniform)).toBeLessThan(1);
    const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / count;
    expect(mean(uniform)).toBeCloseTo(0.5, 1);
    const normal = Array.from({ length: count }, seededNormal(3));
    expect(mean(normal)).toBeCloseTo(0, 1);
    expect(mean(normal.map((value) => value * value))).toBeCloseTo(1, 1);
  });
});
