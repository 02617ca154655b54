import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { promptsFrom, spreadEvenly, traceOf } from '../../src/workloads/trace.js';

const counts = fc
  .integer({ min: 1, max: 500 })
  .chain((count) => fc.tuple(fc.constant(count), fc.integer({ min: 0, max: count })));

describe('deterministic places', () => {
  it('are exactly as many as asked for', () => {
    fc.assert(
      fc.property(counts, ([count, marked]) => {
        const places = spreadEvenly(count, marked);
        expect(places).toHaveLength(count);
        expect(places.filter(Boolean)).toHaveLength(marked);
      }),
    );
  });

  it('are never further apart than they must be, from the last around to the first as well', () => {
    fc.assert(
      fc.property(counts, ([count, marked]) => {
        fc.pre(marked > 0);
        const at = spreadEvenly(count, marked).flatMap((is, i) => (is ? [i] : []));
        const distances = at.map((place, i) => (i + 1 < marked ? at[i + 1]! : at[0]! + count) - place);
        expect(Math.max(...distances)).toBe(Math.ceil(count / marked));
        expect(Math.min(...distances)).toBeGreaterThanOrEqual(Math.floor(count / marked));
      }),
    );
  });

  it('lie in the last quarter of a trace as in any other', () => {
    const places = spreadEvenly(64, 8);
    for (let quarter = 0; quarter < 4; quarter++)
      expect(places.slice(16 * quarter, 16 * quarter + 16).filter(Boolean)).toHaveLength(2);
  });
});

describe('a trace', () => {
  const requests = Array.from({ length: 40 }, (_, i) => ({ promptTokens: [i, i + 1], outputTokens: 5 + i }));

  it('is the same for the same seed, and its share changes nothing but who is deterministic', () => {
    const options = { sampling: 'half', seed: 3 } as const;
    const some = traceOf(requests, { ...options, deterministicShare: 0.1 });
    expect(traceOf(requests, { ...options, deterministicShare: 0.1 })).toEqual(some);
    const all = traceOf(requests, { ...options, deterministicShare: 1 });
    expect(all.map((request) => ({ ...request, deterministic: false }))).toEqual(
      some.map((request) => ({ ...request, deterministic: false })),
    );
    expect(some.filter(({ deterministic }) => deterministic)).toHaveLength(4);
    expect(all.every(({ deterministic }) => deterministic)).toBe(true);
  });

  it('asks for exactly the lengths that it is given', () => {
    const trace = traceOf(requests, { deterministicShare: 0, sampling: 'greedy', seed: 3 });
    expect(trace.map(({ maxTokens }) => maxTokens)).toEqual(requests.map(({ outputTokens }) => outputTokens));
    expect(trace.every(({ ignoreEos, temperature }) => ignoreEos && temperature === 0)).toBe(true);
  });

  it('samples half of its requests where asked to, not the deterministic half', () => {
    const trace = traceOf(requests, { deterministicShare: 0.5, sampling: 'half', seed: 3 });
    const sampled = trace.filter(({ temperature }) => temperature === 0.8);
    expect(sampled).toHaveLength(20);
    const both = sampled.filter(({ deterministic }) => deterministic).length;
    expect(both).toBeGreaterThan(0);
    expect(both).toBeLessThan(20);
  });
});

describe('prompts', () => {
  it('have the lengths asked for and are pieces of the texts in a ring', () => {
    const texts = [
      [0, 1, 2, 3],
      [4, 5, 6],
    ];
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 20 }),
        fc.integer({ min: 0, max: 1000 }),
        (lengths, seed) => {
          const asked = lengths.map((promptTokens) => ({ promptTokens, outputTokens: 9 }));
          const prompts = promptsFrom(texts, asked, seed);
          expect(prompts.map(({ promptTokens }) => promptTokens.length)).toEqual(lengths);
          for (const { promptTokens } of prompts)
            promptTokens.forEach((token, i) => {
              expect(token).toBe((promptTokens[0]! + i) % 7);
            });
          expect(promptsFrom(texts, asked, seed)).toEqual(prompts);
        },
      ),
    );
  });
});
