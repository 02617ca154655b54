import { tableOf } from '@stet/backend';
import type { FakeScript } from '@stet/testing';
import { fakeContinuation } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { direct, dvr, GREEDY, type SequenceRequest, type StopMatcher, type VerifyPolicy } from '../src/index.js';
import { answer, checkAnswers, oracle, Rig, request, sameBits } from './rig.js';

/** Verifies as soon as k candidates have gathered. */
const every = (k: number): VerifyPolicy => ({
  name: `every(${k})`,
  decide: ({ candidateCount }) => (candidateCount >= k ? 'verify' : 'decode'),
});

/** Ends when the last tokens are `suffix`. */
function endsWith(suffix: readonly number[]): StopMatcher<readonly number[]> {
  return {
    initial: [],
    next: (state, token) => [...state, token].slice(-suffix.length),
    matched: (state) => state.length === suffix.length && state.every((token, i) => token === suffix[i]),
  };
}

/** The fast schedule gets the token of one output index wrong; `wrong` chooses what it says instead. */
function fastIsWrongAt(prompt: readonly number[], outputIndex: number, wrong: (right: number) => number): FakeScript {
  const context = [...prompt, ...fakeContinuation(prompt, outputIndex + 1)];
  const right = context.pop()!;
  return (seen, schedule) =>
    schedule === 'fast' && seen.length === context.length && seen.every((token, i) => token === context[i])
      ? wrong(right)
      : undefined;
}

const other = (right: number) => (right + 1) % 64;
const sampled = { ...GREEDY, temperature: 1.1 };
const prompts = (count: number) =>
  Array.from({ length: count }, (_, i) => [(5 + i) % 64, 17, (3 * i) % 64, 9, (i * i) % 64]);

describe('must-test list', () => {
  it('1. leaves the next steps of the neighbours unchanged when one of N rolls back', async () => {
    const all = prompts(5);
    const run = async (script?: FakeScript) => {
      const requests = all.map((prompt, i) => request({ id: `n${i}`, prompt, maxTokens: 24 }));
      const rig = await answer(
        { fake: script ? { script } : {}, config: { policy: dvr({ windowTokens: 8 }) } },
        requests,
      );
      const rows = new Map<string, string[]>();
      for (const step of rig.backend.log) {
        for (const batch of [step.fast, step.canonical]) {
          for (const sequence of batch?.sequences ?? []) {
            const key = String(sequence.tokens.length > 1 || sequence.position > 0 ? sequence.blocks[0] : 'none');
            rows.set(key, [...(rows.get(key) ?? []), `${sequence.position}:${sequence.tokens}`]);
          }
        }
      }
      return { rows: [...rows.values()], rollbacks: rig.scheduler.stats().rollbacks };
    };
    const calm = await run();
    const rolled = await run(fastIsWrongAt(all[2]!, 5, other));
    expect(calm.rollbacks).toBe(0);
    expect(rolled.rollbacks).toBe(1);
    const unchanged = calm.rows.filter((row) => rolled.rows.some((same) => same.join() === row.join()));
    expect(unchanged).toHaveLength(all.length - 1);
  });

  it('2. gives equal bits when the same window is verified twice', async () => {
    const make = () => request({ id: 'same', topLogprobs: 5, sampling: sampled });
    const first = await answer({ fake: { mismatchRate: 0.3 } }, [make()]);
    const second = await answer({ fake: { mismatchRate: 0.3 } }, [make()]);
    expect(sameBits(first.outcome('same').logprobs, second.outcome('same').logprobs)).toBe(true);
    expect(first.outcome('same').stats!.windows).toBeGreaterThan(0);
  });

  it('3. keeps free + cached + held = total after every step and never issues block 0', async () => {
    const rig = await Rig.create({ fake: { mismatchRate: 0.4 }, load: { blockCount: 40 } });
    const requests = prompts(12).map((prompt, i) => request({ prompt, kind: i % 3 ? 'deterministic' : 'ordinary' }));
    for (const one of requests) rig.add(one);
    await rig.run(({ step }) => {
      for (const batch of [step.fast, step.canonical]) {
        for (let s = 0; s < (batch?.blockStarts.length ?? 0); s++) expect(tableOf(batch!, s, 4)).not.toContain(0);
      }
      const { free, cached, held, total } = rig.scheduler.stats().kv;
      expect(free + cached + held).toBe(total);
    });
    checkAnswers(rig, requests);
    rig.checkIdle();
  });

  it('4. lands verified K/V exactly where decode and later windows read it', async () => {
    await answer({ fake: { fastKvDeviates: true } }, [request({ maxTokens: 60 })]);
    await expect(answer({ fake: { fault: 'keepsCandidateKv' } }, [request({ maxTokens: 60 })])).rejects.toThrow(
      'expected',
    );
  });

  it.each([1, 15, 16, 17, 35])('5. verifies %i candidates where a pass takes 16 rows', async (count) => {
    for (const mismatchRate of [0, 0.1]) {
      const requests = [request({ maxTokens: 80 }), request({ prompt: [9, 9], maxTokens: 81 })];
      const limits = { canonicalBudget: 16 };
      const rig = await answer(
        { fake: { mismatchRate }, load: { contextLength: 512 }, config: { policy: every(count), limits } },
        requests,
      );
      expect(rig.scheduler.stats().windows).toBeGreaterThan(0);
    }
  });

  it.each(['prefill', 'verify', 'rollback'] as const)(
    '6. aborts and preempts between forward and apply in %s',
    async (when) => {
      for (const action of ['abort', 'preempt'] as const) {
        const prompt = Array.from({ length: 30 }, (_, i) => i);
        const victim = request({ prompt, maxTokens: 30 });
        const neighbour = request({ prompt: [60, 61], maxTokens: 30 });
        const script = fastIsWrongAt(prompt, 3, other);
        const rig = await Rig.create({
          fake: when === 'rollback' ? { script } : {},
          config: { limits: { prefillBudget: 8 }, policy: every(8) },
        });
        rig.add(victim);
        rig.add(neighbour);
        let done = false;
        await rig.run((planned) => {
          const run = planned.runs.find((one) => one.sequence.id === victim.id && one.schedule === 'canonical');
          const now = run && (when === 'prefill' ? run.start < 16 : run.sequence.candidateCount > 0);
          if (done || !now) return;
          done = true;
          if (action === 'abort') rig.note(rig.scheduler.abort(victim.id, rig.clock.now()));
          else rig.scheduler.preempt(victim.id);
          rig.scheduler.check();
        });
        expect(done).toBe(true);
        checkAnswers(rig, action === 'abort' ? [neighbour] : [victim, neighbour]);
        if (action === 'abort') expect(rig.outcome(victim.id).reason).toBe('aborted');
        else expect(rig.outcome(victim.id).stats!.preemptions).toBe(1);
        rig.checkIdle();
      }
    },
  );

  it('7. verifies a due window while the pool is exactly full', async () => {
    const requests = [
      request({ prompt: [1, 2, 3, 4], maxTokens: 28 }),
      request({ prompt: [4, 3, 2, 1], maxTokens: 28 }),
    ];
    const rig = await Rig.create({ load: { blockCount: 17 }, config: { policy: every(8), prefixCache: 'off' } });
    for (const one of requests) rig.add(one);
    let fullWhenVerifying = 0;
    await rig.run((planned) => {
      if (planned.step.canonical && rig.scheduler.stats().kv.free === 0) fullWhenVerifying++;
    });
    expect(fullWhenVerifying).toBeGreaterThan(0);
    expect(rig.scheduler.stats().preemptions).toBe(0);
    checkAnswers(rig, requests);
  });

  it('8. ends at the prefill for maxTokens 1, with every policy', async () => {
    for (const policy of [dvr(), direct()]) {
      const requests = [
        request({ maxTokens: 1 }),
        request({ maxTokens: 1, kind: 'ordinary' }),
        request({ maxTokens: 1, prompt: [4] }),
      ];
      const rig = await answer({ config: { policy } }, requests);
      expect(rig.outcome(requests[0]!.id).events.map((event) => event.kind)).toEqual(['commit', 'finish']);
      expect(rig.outcome(requests[1]!.id).tokens).toHaveLength(1);
    }
  });

  it('9. rolls back a false end of text, and a stop condition ends it later: ids and log-probabilities end together', async () => {
    const prompt = [8, 30, 2];
    const text = fakeContinuation(prompt, 12);
    const script = fastIsWrongAt(prompt, 4, () => 63);
    const stop = endsWith(text.slice(8, 10));
    const one = request({ prompt, maxTokens: 40, stopTokens: new Set([63]), stop, topLogprobs: 2 });
    expect(text.slice(0, 10)).not.toContain(63);
    const rig = await answer({ fake: { script } }, [one]);
    const outcome = rig.outcome(one.id);
    expect(outcome.stats!.rollbacks).toBe(1);
    expect(outcome.tokens.length).toBeLessThanOrEqual(10);
    expect(outcome.logprobs).toHaveLength(outcome.tokens.length);
    expect(outcome.reason).toBe('stop');
  });

  it('10. ends at a correction token that is itself the end of text or completes a stop condition', async () => {
    const prompt = [8, 30, 2];
    const text = fakeContinuation(prompt, 12);
    const script = fastIsWrongAt(prompt, 5, other);
    const cases: Partial<SequenceRequest>[] = [
      { stopTokens: new Set([text[5]!]) },
      { stop: endsWith(text.slice(4, 6)) },
    ];
    for (const ends of cases) {
      const one = request({ prompt, maxTokens: 40, topLogprobs: 0, ...ends });
      const rig = await answer({ fake: { script }, config: { policy: every(9) } }, [one]);
      const { tokens, stats } = rig.outcome(one.id);
      expect(tokens.length).toBe(oracle(one).tokens.length);
      if (tokens.length === 6) expect(stats!.rollbacks).toBe(1);
    }
  });

  it('11. draws the same token in prefill, decode and verify', async () => {
    const make = (id: string) => request({ id, sampling: sampled, seed: 2 ** 40 + 5, maxTokens: 40, topLogprobs: 3 });
    const byWindow = await answer({ config: { policy: every(7) } }, [make('a')]);
    const byRow = await answer({ config: { policy: direct() } }, [make('a')]);
    const resumed = await Rig.create();
    resumed.add(make('a'));
    await resumed.run(undefined, (stepIndex) => {
      if (stepIndex % 3 === 2) resumed.scheduler.preempt('a');
    });
    expect(resumed.outcome('a').stats!.preemptions).toBeGreaterThan(3);
    for (const rig of [byWindow, byRow]) expect(rig.outcome('a').tokens).toEqual(resumed.outcome('a').tokens);
    expect(sameBits(byWindow.outcome('a').logprobs, resumed.outcome('a').logprobs)).toBe(true);
  });

  it.each([1, 4, 6, 7, 11])('12. rolls back to output index %i, inside a block and across blocks', async (index) => {
    const prompt = [3, 1, 4, 1, 5];
    const one = request({ prompt, maxTokens: 24 });
    const rig = await answer({ fake: { script: fastIsWrongAt(prompt, index, other) }, config: { policy: every(12) } }, [
      one,
    ]);
    expect(rig.outcome(one.id).stats!.rollbacks).toBe(1);
  });

  it('13. keeps mixed sampling parameters apart, penalties and bias through a rollback included', async () => {
    const variants = [
      sampled,
      { ...sampled, topK: 3 },
      { ...sampled, topP: 0.8 },
      { ...sampled, minP: 0.1 },
      { ...GREEDY, frequencyPenalty: 1.5, presencePenalty: 0.5 },
      { ...sampled, frequencyPenalty: 0.7, logitBias: new Map([[5, 8]]) },
      {
        ...GREEDY,
        logitBias: new Map([
          [9, 6],
          [2, -50],
        ]),
      },
      GREEDY,
    ];
    const requests = variants.map((sampling, i) =>
      request({ sampling, seed: i % 3, maxTokens: 40, topLogprobs: i % 2 ? 2 : 0 }),
    );
    const rig = await answer({ fake: { mismatchRate: 0.2 } }, requests);
    expect(rig.scheduler.stats().rollbacks).toBeGreaterThan(5);
  });

  it('14. takes the lowest id among equals, in the backend and in the sampler', async () => {
    const requests = prompts(20).flatMap((prompt) => [request({ prompt }), request({ prompt, topLogprobs: 0 })]);
    const rig = await answer({ load: { blockCount: 512 } }, requests);
    for (let i = 0; i < requests.length; i += 2) {
      expect(rig.outcome(requests[i]!.id).tokens).toEqual(rig.outcome(requests[i + 1]!.id).tokens);
    }
  });

  it('15. is not changed by garbage in freed blocks', async () => {
    // The rig fills free blocks after every step of every test here; this one shows that it would be noticed.
    const rig = await Rig.create();
    const one = request({ maxTokens: 30 });
    rig.add(one);
    await rig.step();
    await rig.step((planned) => rig.backend.poison(tableOf(planned.step.fast!, 0, 4)));
    await rig.run();
    expect(() => checkAnswers(rig, [one])).toThrow('expected');
  });

  it.each([3, 4, 5, 8, 9])(
    '16. gives equal bits with and without a prefix hit for a prompt of %i tokens',
    async (length) => {
      const prompt = Array.from({ length }, (_, i) => 7 * i + 1);
      const make = (id: string, kind: 'deterministic' | 'ordinary' = 'deterministic') =>
        request({ id, kind, prompt, topLogprobs: 2, maxTokens: 12 });
      const cold = await answer({ config: { prefixCache: 'off' } }, [make('a')]);
      const rig = await answer({}, [make('first')]);
      rig.add(make('a'));
      await rig.run();
      const expectedHit = Math.floor((length - 1) / 4) * 4;
      expect(rig.outcome('a').stats!.cachedTokens).toBe(expectedHit);
      expect(rig.scheduler.stats().kv.hitBlocks).toBe(expectedHit / 4);
      expect(sameBits(rig.outcome('a').logprobs, cold.outcome('a').logprobs)).toBe(true);
      expect(rig.outcome('a').tokens).toEqual(cold.outcome('a').tokens);
    },
  );

  it('16. serves blocks of ordinary requests to ordinary ones alone', async () => {
    const prompt = Array.from({ length: 13 }, (_, i) => i + 20);
    const rig = await answer({}, [request({ id: 'o', kind: 'ordinary', prompt })]);
    rig.add(request({ id: 'det', prompt }));
    await rig.run();
    expect(rig.outcome('det').stats!.cachedTokens).toBe(0);
    rig.add(request({ id: 'o2', kind: 'ordinary', prompt }));
    await rig.run();
    expect(rig.outcome('o2').stats!.cachedTokens).toBe(12);
    checkAnswers(rig, [request({ id: 'det', prompt })]);
  });

  it('17. gives a preempted sequence the bits of one that was not', async () => {
    const requests = prompts(6).map((prompt, i) =>
      request({ id: `p${i}`, prompt, maxTokens: 40, topLogprobs: 1, sampling: sampled }),
    );
    const roomy = await answer({ load: { blockCount: 200 } }, requests);
    const tight = await answer({ load: { blockCount: 30 } }, requests);
    expect(roomy.scheduler.stats().preemptions).toBe(0);
    expect(tight.scheduler.stats().preemptions).toBeGreaterThan(0);
    for (const { id } of requests) expect(sameBits(tight.outcome(id).logprobs, roomy.outcome(id).logprobs)).toBe(true);
  });

  it('19. gives equal bits in a batch of 1 and of 64, log-probabilities included', async () => {
    const one = request({ id: 'one', prompt: [11, 12, 13], topLogprobs: 20, sampling: sampled, maxTokens: 32 });
    const alone = await answer({ fake: { mismatchRate: 0.05 } }, [one]);
    const crowd = prompts(63).map((prompt, i) =>
      request({ prompt, kind: i % 2 ? 'ordinary' : 'deterministic', maxTokens: 8 + (i % 20) }),
    );
    const crowded = await answer({ fake: { mismatchRate: 0.05 }, load: { blockCount: 800, maxRows: 128 } }, [
      one,
      ...crowd,
    ]);
    expect(crowded.outcome('one').tokens).toEqual(alone.outcome('one').tokens);
    expect(sameBits(crowded.outcome('one').logprobs, alone.outcome('one').logprobs)).toBe(true);
  });

  it('20. streams commits that only grow, and withdraws provisional tokens before it commits others', async () => {
    const requests = prompts(4).map((prompt) => request({ prompt, provisional: true, maxTokens: 50 }));
    const rig = await answer({ fake: { mismatchRate: 0.3 }, load: { blockCount: 30 } }, requests);
    for (const { id } of requests) {
      const { events, provisional } = rig.outcome(id);
      expect(provisional).toEqual([]);
      expect(events.filter((event) => event.kind === 'rollback').length).toBeGreaterThan(0);
    }
  });

  it.each([0, 0.01, 0.5, 1])(
    '21. counts injected mismatches at a rate of %d and keeps the output',
    async (mismatchRate) => {
      const one = request({ maxTokens: 100 });
      const rig = await answer({ fake: { mismatchRate }, load: { blockCount: 100 }, config: { policy: every(8) } }, [
        one,
      ]);
      const stats = rig.outcome(one.id).stats!;
      const { injectedMismatches } = rig.backend;
      if (mismatchRate === 0) expect([stats.rollbacks, stats.recomputedTokens, injectedMismatches]).toEqual([0, 0, 0]);
      if (mismatchRate === 1)
        expect([stats.rollbacks, stats.recomputedTokens]).toEqual([stats.windows, injectedMismatches]);
      expect(stats.rollbacks).toBeLessThanOrEqual(injectedMismatches);
      expect(stats.rollbacks > 0).toBe(injectedMismatches > 0);
    },
  );
});
