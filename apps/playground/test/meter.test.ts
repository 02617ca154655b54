import { describe, expect, it } from 'vitest';
import { Meter, percentile } from '../src/run/meter.js';

describe('the meter of an answer', () => {
  it('knows nothing before the first token', () => {
    expect(new Meter(100).read()).toEqual({ tokenCount: 0 });
  });

  it('times the first token from the start, and the rate from the first arrival on', () => {
    const meter = new Meter(100);
    meter.commit(2, 150);
    expect(meter.read()).toEqual({ tokenCount: 2, firstTokenMs: 50 });
    for (const nowMs of [160, 170, 250]) meter.commit(5, nowMs);
    expect(meter.read()).toEqual({
      tokenCount: 17,
      firstTokenMs: 50,
      tokensPerSecond: 150,
      gapP50Ms: 10,
      gapP99Ms: 80,
    });
  });

  it('takes the nearest rank as a percentile', () => {
    expect(percentile([5], 0.99)).toBe(5);
    expect(percentile([4, 1, 3, 2], 0.5)).toBe(2);
    expect(percentile([4, 1, 3, 2], 0.99)).toBe(4);
  });
});
