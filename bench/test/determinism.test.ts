import { describe, expect, it } from 'vitest';
import { costOf } from '../src/determinism.js';

describe('the cost of deterministic requests', () => {
  it('is a share of the rate without any, by medians', () => {
    const cost = costOf(
      'q8',
      new Map([
        ['none', [200, 90, 100]],
        ['1 of 11', [97, 98, 60]],
        ['all', [80, 40, 60]],
        ['all, canonical rows alone', [50, 50, 50]],
      ]),
    );
    expect(cost.costOfOnePercent).toBe(3);
    expect(cost.allOverCanonical).toBe(1.2);
    expect(cost.tokensPerSecond.none).toEqual({ median: 100, best: 200 });
  });
});
