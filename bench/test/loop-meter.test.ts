import { describe, expect, it } from 'vitest';
import { LoopMeter } from '../src/loop-meter.js';

describe('a closed loop', () => {
  it('takes gaps between the commits of one answer and first tokens from its request', () => {
    const meter = new LoopMeter(2, 2);
    const first = meter.beginAnswer(100);
    const second = meter.beginAnswer(110);
    first.commit(130);
    second.commit(131);
    first.commit(137);
    first.commit(150);
    second.commit(151);
    meter.endAnswer(150);
    expect(meter.isComplete).toBe(false);
    meter.endAnswer(160);
    expect(meter.isComplete).toBe(true);
    const { gaps, firstTokens } = meter.result();
    expect(firstTokens).toEqual([30, 21]);
    expect(gaps).toEqual([7, 13, 20]);
  });

  it('counts tokens of all streams only while every measured stream is measured', () => {
    const meter = new LoopMeter(2, 2);
    meter.commit(1000);
    meter.beginAnswer(0).commit(10);
    meter.commit(1000);
    meter.beginAnswer(500).commit(510);
    meter.commit(20);
    meter.endAnswer(600);
    meter.commit(30);
    meter.endAnswer(1000);
    meter.commit(1000);
    expect(meter.result().tokensPerSecond).toBe(100);
  });

  it('gives no result while answers are missing', () => {
    const meter = new LoopMeter(1, 2);
    meter.beginAnswer(0).commit(1);
    meter.endAnswer(2);
    expect(() => meter.result()).toThrow();
  });
});
