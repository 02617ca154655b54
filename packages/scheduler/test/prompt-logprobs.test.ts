import { fc, it as property } from '@fast-check/vitest';
import { type FakeBackendOptions, fakeLogits } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { direct, dvr, GREEDY, type SequenceRequest, type TokenLogprob, tokenLogprob } from '../src/index.js';
import { answer, checkAnswers, Rig, request, sameBits } from './rig.js';

const prompt = Array.from({ length: 43 }, (_, i) => (i * i + 5) % 64);

/** Computed without blocks, batches or schedules. */
function expected({ promptTokens, promptLogprobs }: SequenceRequest, fake: FakeBackendOptions = {}): TokenLogprob[] {
  const tokens = [...promptTokens];
  return tokens
    .slice(1)
    .map((token, i) => tokenLogprob(fakeLogits(tokens.slice(0, i + 1), fake), token, promptLogprobs ?? 0));
}

/** What was told of the prompt, after a check of the order in which it was. */
function told(rig: Rig, id: string): TokenLogprob[] {
  const logprobs: TokenLogprob[] = [];
  let hasCommitted = false;
  for (const event of rig.outcome(id).events) {
    if (event.kind === 'commit') hasCommitted = true;
    if (event.kind !== 'promptLogprobs') continue;
    expect(hasCommitted).toBe(false);
    expect(event.from).toBe(logprobs.length + 1);
    logprobs.push(...event.logprobs);
  }
  return logprobs;
}

describe('log-probabilities of a prompt', () => {
  it.each(['deterministic', 'ordinary'] as const)('tell of every token but the first, %s', async (kind) => {
    const one = request({ kind, prompt, promptLogprobs: 3, topLogprobs: 1, maxTokens: 4 });
    const rig = await answer({}, [one]);
    expect(sameBits(told(rig, one.id), expected(one))).toBe(true);
    expect(told(rig, one.id)[0]!.top).toHaveLength(3);
  });

  it('are none of a prompt of one token, and none that nobody asked for', async () => {
    const short = request({ prompt: [9], promptLogprobs: 2 });
    const plain = request({ prompt });
    const rig = await answer({}, [short, plain]);
    for (const { id } of [short, plain]) expect(told(rig, id)).toEqual([]);
  });

  it('do not depend on what the prefix cache has, and leave it to others', async () => {
    const rig = await Rig.create();
    const make = (id: string, rest: Partial<SequenceRequest> = {}) => request({ id, prompt, ...rest });
    rig.add(make('first'));
    await rig.run();
    rig.add(make('scored', { promptLogprobs: 0 }));
    await rig.run();
    rig.add(make('last'));
    await rig.run();
    expect(rig.outcome('scored').stats!.cachedTokens).toBe(0);
    expect(rig.outcome('last').stats!.cachedTokens).toBe(40);
    expect(sameBits(told(rig, 'scored'), expected(make('scored', { promptLogprobs: 0 })))).toBe(true);
  });

  it('take no more rows of a step than their budget', async () => {
    const requests = [1, 2, 3].map(() => request({ prompt, promptLogprobs: 0 }));
    const rig = await answer({ config: { limits: { scoreBudget: 5 } } }, requests);
    for (const { canonical } of rig.backend.log) {
      const positions = (canonical?.sequences ?? []).flatMap(({ position, tokens }) =>
        tokens.map((_, i) => position + i),
      );
      expect(positions.filter((position) => position < prompt.length - 1).length).toBeLessThanOrEqual(5);
    }
    const first = rig.backend.log[0]!.canonical!.sequences;
    expect(first.map(({ tokens }) => tokens.length)).toEqual([5]);
  });

  it('are told once each where the blocks are taken meanwhile', async () => {
    const one = request({ prompt, promptLogprobs: 1, maxTokens: 9 });
    const rig = await Rig.create({ config: { limits: { scoreBudget: 6 } } });
    rig.add(one);
    await rig.run(undefined, (step) => {
      if (step % 3 === 2 && step < 30) rig.scheduler.preempt(one.id);
    });
    expect(rig.outcome(one.id).stats!.preemptions).toBeGreaterThan(2);
    expect(sameBits(told(rig, one.id), expected(one))).toBe(true);
    checkAnswers(rig, [one]);
    rig.checkIdle();
  });

  property.prop(
    {
      lengths: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
      shape: fc.option(fc.constant({ sequenceCount: 2, windowTokens: 8 }), { nil: undefined }),
      policy: fc.constantFrom(dvr({ windowTokens: 3 }), direct()),
      scoreBudget: fc.integer({ min: 1, max: 40 }),
      temperature: fc.constantFrom(0, 1),
      preemptEvery: fc.integer({ min: 7, max: 20 }),
    },
    { numRuns: 40 },
  )(
    'are the same bits in every company, shape and policy',
    async ({ lengths, shape, policy, scoreBudget, temperature, preemptEvery }) => {
      const fake: FakeBackendOptions = { mismatchRate: 0.2, ...(shape && { canonicalShape: shape }) };
      const rig = await Rig.create({ fake, config: { policy, limits: { scoreBudget } } });
      const requests = lengths.map((length, i) =>
        request({
          kind: i % 3 === 2 ? 'ordinary' : 'deterministic',
          prompt: prompt.concat(prompt).slice(i, i + length),
          sampling: { ...GREEDY, temperature },
          maxTokens: 6,
          ...(i % 2 === 0 && { promptLogprobs: i }),
        }),
      );
      for (const one of requests) rig.add(one);
      await rig.run(undefined, (step) => {
        if (step % preemptEvery === preemptEvery - 1 && step < 200) rig.scheduler.preempt(requests[0]!.id);
      });
      checkAnswers(rig, requests, fake);
      for (const one of requests) {
        if (one.kind === 'ordinary') continue;
        const want = one.promptLogprobs === undefined ? [] : expected(one, fake);
        expect(sameBits(told(rig, one.id), want)).toBe(true);
      }
      rig.checkIdle();
    },
  );
});
