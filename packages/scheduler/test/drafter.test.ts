import { fc, it as property } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { type Drafter, promptLookup } from '../src/index.js';
import { answer, oracle, request } from './rig.js';

/** Guesses from a given text, at whatever place the sequence is. */
const reciting = (text: readonly number[], length: number): Drafter => ({
  name: 'reciting',
  open: () => ({ propose: (tokens, max) => text.slice(tokens.length, tokens.length + Math.min(length, max)) }),
});

describe('prompt look-up', () => {
  it('proposes what followed the latest occurrence of the last tokens', () => {
    const source = promptLookup({ matchTokens: 2, draftTokens: 3 }).open();
    expect(source.propose(Int32Array.of(1, 2, 7, 8, 9, 4, 1, 2), 10)).toEqual([7, 8, 9]);
    expect(source.propose(Int32Array.of(1, 2, 7, 8, 9, 4, 1, 2, 5, 1, 2), 10)).toEqual([5, 1, 2]);
    expect(source.propose(Int32Array.of(1, 2, 7, 8, 9, 4, 1, 2, 5, 1, 2), 1)).toEqual([5]);
  });

  it('goes on with its own guesses where the text repeats itself', () => {
    const source = promptLookup({ matchTokens: 2, draftTokens: 7 }).open();
    expect(source.propose(Int32Array.of(5, 6, 7, 5, 6), 10)).toEqual([7, 5, 6, 7, 5, 6, 7]);
    expect(source.propose(Int32Array.of(5, 6, 7, 5, 6, 1, 1, 1), 4)).toEqual([1, 1, 1, 1]);
  });

  it('proposes nothing for what it has not seen, or too short a text', () => {
    const source = promptLookup({ matchTokens: 3 }).open();
    expect(source.propose(Int32Array.of(1, 2), 5)).toEqual([]);
    expect(source.propose(Int32Array.of(1, 2, 3, 4), 5)).toEqual([]);
  });

  property.prop({
    tokens: fc.array(fc.nat(3), { minLength: 1, maxLength: 60 }),
    steps: fc.array(fc.integer({ min: 1, max: 5 })),
  })('says the same whether it read the text at once or as it grew', ({ tokens, steps }) => {
    const all = Int32Array.from(tokens);
    const growing = promptLookup().open();
    let length = 1;
    for (const step of steps) {
      length = Math.min(length + step, all.length);
      growing.propose(all.subarray(0, length), 4);
    }
    expect(growing.propose(all, 4)).toEqual(promptLookup().open().propose(all, 4));
  });
});

describe('drafts', () => {
  const one = request({ id: 'd', maxTokens: 60, topLogprobs: 1 });
  const text = [...one.promptTokens, ...oracle(one).tokens];

  it('that are right commit many tokens a pass, and are counted', async () => {
    const rig = await answer({ config: { drafter: reciting(text, 8) } }, [one]);
    const stats = rig.outcome('d').stats!;
    expect(stats.acceptedTokens).toBe(stats.draftedTokens);
    expect(stats.acceptedTokens).toBeGreaterThan(40);
    expect(rig.scheduler.stats().steps).toBeLessThan(12);
  });

  it('that are wrong change no bit, and the drafter is given a rest', async () => {
    const wrong = text.map((token) => (token + 1) % 64);
    const rig = await answer({ config: { drafter: reciting(wrong, 8) } }, [one]);
    const stats = rig.outcome('d').stats!;
    expect(stats.acceptedTokens).toBe(0);
    expect(stats.draftedTokens).toBeGreaterThan(0);
    expect(stats.draftedTokens).toBeLessThan(60);
  });

  it('are not shown to a client that asked for provisional tokens, and never withdrawn', async () => {
    const half = text.map((token, i) => (i % 5 === 0 ? (token + 1) % 64 : token));
    const shown = request({ id: 'p', maxTokens: 60, provisional: true });
    const rig = await answer({ fake: { mismatchRate: 0.2 }, config: { drafter: reciting(half, 4) } }, [shown]);
    expect(rig.outcome('p').stats!.acceptedTokens).toBeGreaterThan(0);
  });

  it('serve ordinary requests where the fast schedule gives the canonical bits, and only there', async () => {
    const ordinary = request({ id: 'o', kind: 'ordinary', maxTokens: 60 });
    const drafter = reciting(text, 8);
    const equal = await answer({ fake: { fastKvDeviates: false }, config: { drafter } }, [ordinary]);
    expect(equal.outcome('o').tokens).toEqual(text.slice(3));
    expect(equal.outcome('o').stats).toMatchObject({ windows: 0, rollbacks: 0 });
    expect(equal.outcome('o').stats!.acceptedTokens).toBeGreaterThan(40);
    const free = await answer({ config: { drafter } }, [ordinary]);
    expect(free.outcome('o').stats!.draftedTokens).toBe(0);
  });

  it('end with the output: at its last token, at a stop token, inside the budget', async () => {
    const stop = request({ id: 's', maxTokens: 60, stopTokens: new Set([text[20]!]) });
    const short = request({ id: 't', maxTokens: 5 });
    const limits = { canonicalBudget: 4, prefillBudget: 2 };
    await answer({ config: { drafter: reciting(text, 16), limits } }, [stop, short]);
  });
});
