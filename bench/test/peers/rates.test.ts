import { describe, expect, it } from 'vitest';
import { decodeRate, rateOf } from '../../src/peers/rates.js';
import { workloadsOf } from '../../src/peers/workloads.js';

const text = Array.from({ length: 600 }, (_, i) => i);

/** Tokens every `step` ms from `from` on. */
const every = (step: number, from: number, count: number) => Array.from({ length: count }, (_, i) => from + i * step);

describe('rateOf', () => {
  const workloads = new Map(workloadsOf(text, 5).map((workload) => [workload.name, workload]));
  const [prefill, four, one, eight] = (['prefill512', 'prefill4x128', 'decode1', 'decode8'] as const).map((name) =>
    workloads.get(name),
  );

  it('counts the tokens of a prompt up to the next token', () => {
    expect(rateOf(prefill!, { startMs: 1000, arrivals: [[1256]] })).toBe(2000);
  });

  it('counts the tokens of all prompts up to the next token of the last', () => {
    expect(rateOf(four!, { startMs: 1000, arrivals: [[1064], [1256], [1128], [1192]] })).toBe(2000);
  });

  it('leaves the prompt of a decode run out', () => {
    expect(rateOf(one!, { startMs: 0, arrivals: [every(10, 700, 5)] })).toBe(100);
  });

  it('refuses a run that gave fewer tokens or streams than it was asked for', () => {
    expect(() => rateOf(one!, { startMs: 0, arrivals: [every(10, 0, 4)] })).toThrow(/expected 5/);
    expect(() => rateOf(eight!, { startMs: 0, arrivals: [every(10, 0, 5)] })).toThrow(/expected 5/);
  });
});

describe('decodeRate', () => {
  it('adds the streams of one step up, in whatever order they are told', () => {
    expect(decodeRate([every(10, 0, 11), every(10, 3, 11), every(10, 1, 11)])).toBeCloseTo(300, 9);
  });

  it('counts only while all streams write: neither the beginning of one alone nor the end', () => {
    const early = [...every(2, 0, 50), ...every(10, 100, 11)];
    const late = [...every(10, 100, 11), ...every(1, 201, 50)];
    expect(decodeRate([early, late])).toBeCloseTo(200, 9);
  });

  it('gives bunches of tokens the rate that they come at', () => {
    const bunches = every(40, 0, 6).flatMap((time) => [time, time, time, time]);
    expect(decodeRate([bunches])).toBeCloseTo(100, 9);
  });

  it('refuses streams that never wrote at the same time', () => {
    expect(() => decodeRate([every(1, 0, 5), every(1, 100, 5)])).toThrow(/same time/);
  });
});
