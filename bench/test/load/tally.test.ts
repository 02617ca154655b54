import { describe, expect, it } from 'vitest';
import { faults, incidentAt, moments } from '../../src/load/incidents.js';
import type { LoadAnswer } from '../../src/load/load-client.js';
import { RequestMix } from '../../src/load/requests.js';
import { Violation } from '../../src/load/stream-checker.js';
import { LoadTally } from '../../src/load/tally.js';

const answer: LoadAnswer = { tokenCount: 3, text: 'abc', hash: 'h', firstTokenMs: 4, gapsMs: [1, 2] };

describe('the requests of a load', () => {
  const first = (share: number, count: number) => {
    const mix = new RequestMix(share, 500);
    return Array.from({ length: count }, (_, index) => mix.request(index));
  };

  it('are the same in every run, with the asked share of deterministic ones, which alone come again', () => {
    const requests = first(0.25, 2000);
    expect(requests).toEqual(first(0.25, 2000));
    const deterministic = requests.filter(({ request }) => request.deterministic);
    expect(deterministic.length).toBeGreaterThan(400);
    expect(deterministic.length).toBeLessThan(600);
    for (const [index, { key, request }] of requests.slice(0, 1500).entries()) {
      const later = requests[index + 500]!;
      expect(later.request.deterministic).toBe(request.deterministic);
      expect(later.key === key).toBe(request.deterministic);
      expect(JSON.stringify(later.request) === JSON.stringify(request)).toBe(request.deterministic);
    }
    expect(new Set(requests.map(({ key }) => key)).size).toBe(2000 - (deterministic.length * 3) / 4);
  });

  it('are half greedy, which is said in full, and of every length', () => {
    const requests = first(0, 2000).map(({ request }) => request);
    const greedy = requests.filter(({ temperature }) => temperature === 0).length;
    expect(greedy).toBeGreaterThan(900);
    expect(greedy).toBeLessThan(1100);
    expect(requests.filter(({ temperature }) => temperature === 0.8).length).toBe(2000 - greedy);
    expect(new Set(requests.map(({ maxTokens }) => maxTokens)).size).toBe(121);
  });

  it('are all of one kind where the share says so', () => {
    expect(first(0, 100).every(({ request }) => !request.deterministic)).toBe(true);
    expect(first(1, 100).every(({ request }) => request.deterministic)).toBe(true);
  });
});

describe('the tally of a load', () => {
  it('tells ordinary from deterministic traffic', () => {
    const tally = new LoadTally();
    tally.add(new RequestMix(0, 9).request(1), answer);
    tally.add(new RequestMix(1, 9).request(1), { ...answer, firstTokenMs: 9, gapsMs: [7] });
    expect(tally.figures('ordinary')).toMatchObject({ requests: 1, tokens: 3, ttftMs: { p50: 4 }, gapMs: { max: 2 } });
    expect(tally.figures('deterministic')).toMatchObject({ ttftMs: { p99: 9 }, gapMs: { count: 1, p90: 7 } });
    expect([tally.tokens, tally.isClean]).toEqual([6, true]);
  });

  it('finds equal deterministic requests with other answers, and lets ordinary ones differ', () => {
    const tally = new LoadTally();
    const [same, ordinary] = [new RequestMix(1, 9).request(3), new RequestMix(0, 9).request(3)];
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
