import { describe, expect, it } from 'vitest';
import { oneOfEleven } from '../../src/scenarios/one-of-eleven.js';
import type { Unit } from '../../src/study/scenario.js';
import { elevenStreams } from '../../src/workloads/eleven-streams.js';
import { study } from './support/small-study.js';

type Measure = { readonly tokensPerSecond: number };
const units = (await oneOfEleven.units(study)) as readonly Unit<Measure>[];

function resultOf(rate: (key: string) => number) {
  return oneOfEleven.result(new Map(units.map(({ key }) => [key, { tokensPerSecond: rate(key) }])), study);
}

describe('the result of one-of-eleven', () => {
  it('is a ratio to none deterministic in the same round', () => {
    const { tables, findings, comparisons } = resultOf((key) => {
      const own = key.startsWith('one of eleven, auto') ? 970 : key.startsWith('all, direct') ? 600 : 1000;
      return key.endsWith('round 3') ? own / 7 : own;
    });
    const row = (deterministic: string, policy: string) =>
      tables[0]!.rows.find((one) => one.deterministic === deterministic && one.policy === policy);
    expect(row('one of eleven', 'auto')).toMatchObject({ 'over none': 0.97, least: 0.97, most: 0.97 });
    expect(row('all', 'direct')).toMatchObject({ 'over none': 0.6, 'tokens/s': 600 });
    expect(findings[0]).toMatch(/leaves 97\.0 % of the rate of all under auto/);
    expect(findings[1]).toMatch(/leaves 60\.0 %/);
    expect(comparisons!.map(({ ours }) => ours)).toEqual([0.97, 0.6, 0.97, 0.6].map((value) => expect.closeTo(value)));
  });

  it('gives a reason that fits whether it is worse than the paper or better', () => {
    const notes = (rate: number) =>
      resultOf((key) => (key.startsWith('one of eleven') ? rate : 1000)).comparisons!.map(({ note }) => note);
    expect(notes(900)[0]).toMatch(/verified row is dear/);
    expect(notes(990)[0]).toMatch(/beside the decoding/);
  });
});

describe('eleven streams', () => {
  const text = Array.from({ length: 400 }, (_, i) => i);

  it('have prompts of their own, and the last ones are deterministic', () => {
    const streams = elevenStreams(text, { deterministic: 1, outputTokens: 20 }).map(({ request }) => request(0));
    expect(new Set(streams.map(({ promptTokens }) => promptTokens![0])).size).toBe(11);
    expect(streams.map(({ deterministic }) => deterministic)).toEqual([...Array(10).fill(false), true]);
    expect(new Set(streams.map(({ maxTokens }) => maxTokens)).size).toBe(11);
  });

  it('may be fewer', () => {
    const [only, ...others] = elevenStreams(text, { streams: 1, deterministic: 1, outputTokens: 20 });
    expect(others).toEqual([]);
    expect(only!.request(2)).toMatchObject({ deterministic: true, ignoreEos: true });
  });
});
