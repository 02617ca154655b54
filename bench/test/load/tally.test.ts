import { describe, expect, it } from 'vitest';
import { faults, incidentAt, moments } from '../../src/load/incidents.js';
import type { LoadAnswer } from '../../src/load/load-client.js';
import { RequestMix } from '../../src/load/requests.js';
import { Violation } from '../../src/load/stream-checker.js';
import { LoadTally } from '../../src/load/tally.js';

const answer: LoadAnswer = { tokenCount: 3, text: 'abc', hash: 'h', firstTokenMs: 4, gapsMs: [1, 2] };

describe('the requests of a load', () => {
  it('are the same in every run, with the asked share of deterministic ones, which come again', () => {
    const mix = new RequestMix(0.25);
    const requests = Array.from({ length: 2000 }, (_, index) => mix.request(index));
    expect(requests.slice(0, 50)).toEqual(
      Array.from({ length: 50 }, (_, index) => new RequestMix(0.25).request(index)),
    );
    const deterministic = requests.filter(({ request }) => request.deterministic);
    expect(deterministic.length).toBeGreaterThan(400);
    expect(deterministic.length).toBeLessThan(600);
    const byKey = new Map(deterministic.map(({ key, request }) => [key, request]));
    expect(byKey.size).toBe(16);
    for (const { key, request } of deterministic) expect(request).toEqual(byKey.get(key));
    expect(requests.some(({ request }) => request.temperature === 0)).toBe(true);
    expect(requests.some(({ request }) => request.temperature === 0.8)).toBe(true);
    expect(new Set(requests.map(({ request }) => request.maxTokens)).size).toBe(121);
  });

  it('are all of one kind where the share says so', () => {
    for (const [share, expected] of [
      [0, false],
      [1, true],
    ] as const)
      for (let index = 0; index < 100; index++)
        expect(new RequestMix(share).request(index).request.deterministic).toBe(expected);
  });
});

describe('the tally of a load', () => {
  it('tells ordinary from deterministic traffic', () => {
    const tally = new LoadTally();
    tally.add(new RequestMix(0).request(1), answer);
    tally.add(new RequestMix(1).request(1), { ...answer, firstTokenMs: 9, gapsMs: [7] });
    expect(tally.figures('ordinary')).toMatchObject({ requests: 1, tokens: 3, ttftMs: { p50: 4 }, gapMs: { max: 2 } });
    expect(tally.figures('deterministic')).toMatchObject({ ttftMs: { p99: 9 }, gapMs: { count: 1, p90: 7 } });
    expect([tally.tokens, tally.isClean]).toEqual([6, true]);
  });

  it('finds equal deterministic requests with other answers, and lets ordinary ones differ', () => {
    const tally = new LoadTally();
    const [same, ordinary] = [new RequestMix(1).variant(3), new RequestMix(0).request(3)];
    for (const request of [same, same, ordinary]) tally.add(request, answer);
    tally.add(ordinary, { ...answer, text: 'abd' });
    expect(tally.isClean).toBe(true);
    tally.add(same, { ...answer, text: 'abd' });
    tally.add(same, { ...answer, hash: 'i' });
    expect([tally.violations.wrong, tally.isClean]).toEqual([2, false]);
  });

  it('counts what failed, and how', () => {
    const tally = new LoadTally();
    tally.addFailure(new Violation('lost', 'seq'));
    tally.addFailure(new Violation('reordered', 'seq'));
    tally.addFailure(new Error('STET_ERR_INTERNAL'));
    expect(tally).toMatchObject({ errors: 1, violations: { lost: 1, reordered: 1, wrong: 0 }, isClean: false });
    expect([...tally.failures]).toEqual([
      ['seq', 2],
      ['STET_ERR_INTERNAL', 1],
    ]);
  });
});

describe('the incidents of a campaign', () => {
  it('are the same in every run, and let every fault meet every moment', () => {
    const incidents = Array.from({ length: 60 }, (_, index) => incidentAt(index));
    expect(incidents).toEqual(Array.from({ length: 60 }, (_, index) => incidentAt(index)));
    expect(new Set(incidents.map(({ fault, moment }) => `${fault} ${moment}`)).size).toBe(
      faults.length * moments.length,
    );
    expect(new Set(incidents.map(({ way }) => way)).size).toBe(3);
  });
});
