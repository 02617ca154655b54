import { describe, expect, it } from 'vitest';
import { bestLimits, type Limits } from '../../src/roofline/machine.js';
import { attentionWork, linearWork, shareOf } from '../../src/roofline/share.js';
import { plan } from './support/small-plan.js';

const limits: Limits = { threads: 2, bytesPerSecond: 100, f32: 10, bf16: 50, int8: 200, vnni: 40 };

describe('the share of the limits', () => {
  it('is that of the bandwidth where reading takes longest', () => {
    expect(shareOf({ bytes: 50, operations: 1, unit: 'f32' }, 1, limits)).toMatchObject({
      bound: 'memory',
      share: 0.5,
    });
  });

  it('is that of the arithmetic where computing takes longest', () => {
    expect(shareOf({ bytes: 1, operations: 8, unit: 'f32' }, 2, limits)).toMatchObject({ bound: 'f32', share: 0.4 });
  });

  it('takes the best of each limit, as what is less was disturbed', () => {
    const other = { ...limits, bytesPerSecond: 90, f32: 12 };
    const best = bestLimits([
      { one: limits, all: limits },
      { one: other, all: other },
    ]);
    expect(best.all).toMatchObject({ bytesPerSecond: 100, f32: 12 });
  });
});

describe('the work of a linear', () => {
  const weights = { count: 1000, bytes: 2000 };

  it('is two operations a weight and row, in f32 where the order of a sum is fixed', () => {
    expect(linearWork('bf16', 'fast', weights, 3, limits)).toEqual({ bytes: 2000, operations: 6000, unit: 'bf16' });
    expect(linearWork('bf16', 'canonical', weights, 3, limits).unit).toBe('f32');
    expect(linearWork('bf16', 'fast', weights, 3, { ...limits, bf16: 0 }).unit).toBe('f32');
  });

  it('is twice as much in byte formats, whose inputs have two planes', () => {
    for (const format of ['q8', 'q4'] as const)
      expect(linearWork(format, 'fast', weights, 3, limits)).toEqual({ bytes: 2000, operations: 12000, unit: 'int8' });
  });
});

describe('the work of attention', () => {
  it('has a pair of each row and each position up to its own, in every layer', () => {
    const work = attentionWork(plan, 4, { sequences: 2, rows: 3, start: 10 });
    // 11 + 12 + 13 positions, 2 sequences, 6 products of 4 heads of 32 in 2 layers.
    expect(work.operations).toBe(2 * 6 * 36 * 2 * 4 * 32 * 2);
    // Keys and values: two planes of 32 and an exponent, for 2 heads in 2 layers, 13 positions, 2 sequences.
    expect(work.bytes).toBe(2 * 65 * 2 * 2 * 13 * 2);
  });
});
