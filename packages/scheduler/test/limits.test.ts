import { StetError } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import { direct, dvr, GREEDY, runStep, type SequenceRequest } from '../src/index.js';
import { answer, checkAnswers, Rig, request } from './rig.js';

describe('requests', () => {
  const refused: [string, Partial<SequenceRequest> & { prompt?: number[] }, string][] = [
    ['an empty prompt', { prompt: [] }, 'STET_ERR_BAD_REQUEST'],
    ['a token outside the vocabulary', { prompt: [64] }, 'STET_ERR_BAD_REQUEST'],
    ['a negative token', { prompt: [-1] }, 'STET_ERR_BAD_REQUEST'],
    ['no output tokens', { maxTokens: 0 }, 'STET_ERR_BAD_REQUEST'],
    ['a fractional number of tokens', { maxTokens: 1.5 }, 'STET_ERR_BAD_REQUEST'],
    ['a negative seed', { seed: -1 }, 'STET_ERR_BAD_REQUEST'],
    ['a seed past 2^53', { seed: 2 ** 53 }, 'STET_ERR_BAD_REQUEST'],
    ['21 log-probabilities', { topLogprobs: 21 }, 'STET_ERR_BAD_REQUEST'],
    [
      'a temperature that is not a number',
      { sampling: { ...GREEDY, temperature: Number.NaN } },
      'STET_ERR_BAD_REQUEST',
    ],
    [
      'a bias outside the vocabulary',
      { sampling: { ...GREEDY, logitBias: new Map([[64, 1]]) } },
      'STET_ERR_BAD_REQUEST',
    ],
    ['one token more than the context', { maxTokens: 254 }, 'STET_ERR_CONTEXT_LENGTH'],
  ];
  it.each(refused)('are refused with %s, and nothing changes', async (_name, options, code) => {
    const rig = await Rig.create({ load: { contextLength: 256, blockCount: 100 } });
    expect(() => rig.add(request(options))).toThrow(expect.objectContaining({ code }));
    expect(rig.scheduler.hasWork).toBe(false);
    rig.checkIdle();
  });

  it('may fill the context to its last position', async () => {
    const rig = await answer({ load: { contextLength: 64, blockCount: 100 } }, [
      request({ prompt: [1, 2, 3], maxTokens: 61 }),
    ]);
    expect(rig.scheduler.stats().committedTokens).toBe(61);
  });

  it('may need all blocks of the pool, and not one more', async () => {
    await answer({ load: { blockCount: 6 } }, [request({ prompt: [1, 2], maxTokens: 18 })]);
    const rig = await Rig.create({ load: { blockCount: 6 } });
    expect(() => rig.add(request({ prompt: [1, 2], maxTokens: 19 }))).toThrow(
      expect.objectContaining({ code: 'STET_ERR_KV_CAPACITY' }),
    );
  });

  it('are refused when the queue is full, and taken again when it is not', async () => {
    const rig = await Rig.create({ config: { limits: { maxWaiting: 2 } } });
    const requests = [request(), request()];
    for (const one of requests) rig.add(one);
    expect(() => rig.scheduler.add(request(), 0)).toThrow(expect.objectContaining({ code: 'STET_ERR_QUEUE_FULL' }));
    await rig.step();
    const late = request();
    rig.add(late);
    await rig.run();
    checkAnswers(rig, [...requests, late]);
  });

  it('are refused under an id that is open', async () => {
    const rig = await Rig.create();
    rig.add(request({ id: 'x' }));
    expect(() => rig.scheduler.add(request({ id: 'x' }), 0)).toThrow(
      expect.objectContaining({ code: 'STET_ERR_DUPLICATE_ID' }),
    );
  });

  it('are refused when deterministic, without a canonical schedule', async () => {
    const rig = await Rig.create({ config: { canonical: 'none' } });
    expect(() => rig.add(request())).toThrow(expect.objectContaining({ code: 'STET_ERR_UNSUPPORTED' }));
    rig.add(request({ kind: 'ordinary' }));
  });
});

describe('steps', () => {
  it('stay inside their budgets, and a long prompt does not stop the tokens of others', async () => {
    const limits = { fastBudget: 24, canonicalBudget: 20, prefillBudget: 8 };
    const rig = await Rig.create({
      load: { contextLength: 512, blockCount: 600 },
      config: { limits, policy: dvr({ windowTokens: 6 }) },
    });
    const talker = request({ id: 'talker', kind: 'ordinary', maxTokens: 60 });
    rig.add(talker);
    await rig.step();
    const long = Array.from({ length: 300 }, (_, i) => i % 64);
    rig.add(request({ id: 'long', prompt: long }));
    rig.add(request({ id: 'longOrdinary', prompt: long, kind: 'ordinary' }));
    for (let i = 0; i < 20; i++) {
      const before = rig.outcome('talker').tokens.length;
      await rig.step();
      expect(rig.outcome('talker').tokens.length).toBe(before + 1);
    }
    for (const step of rig.backend.log) {
      expect(step.fast?.rowCount ?? 0).toBeLessThanOrEqual(24);
      expect(step.canonical?.rowCount ?? 0).toBeLessThanOrEqual(20);
    }
    await rig.run();
  });

  it('decode the others while a window is verified', async () => {
    const rig = await Rig.create({ config: { policy: dvr({ windowTokens: 4 }) } });
    rig.add(request({ id: 'det', maxTokens: 40 }));
    rig.add(request({ id: 'ord', kind: 'ordinary', maxTokens: 40 }));
    await rig.run();
    const both = rig.backend.log.filter((step) => step.canonical && step.fast);
    expect(both.length).toBeGreaterThan(5);
    expect(rig.outcome('ord').events.filter((event) => event.kind === 'commit').length).toBe(40);
  });

  it('verify what has waited for maxHoldMs', async () => {
    const rig = await Rig.create({ config: { policy: dvr({ windowTokens: 1000, maxHoldMs: 5 }) } });
    const one = request({ maxTokens: 30 });
    rig.add(one);
    await rig.run();
    expect(rig.outcome(one.id).stats!.windows).toBeGreaterThan(3);
  });

  it('fail the requests of a step with the error of the backend; others and later ones go on', async () => {
    const rig = await Rig.create({ config: { limits: { maxRunning: 1 } } });
    const [lost, saved] = [request({ id: 'lost' }), request({ id: 'saved' })];
    rig.add(lost);
    rig.add(saved);
    rig.backend.failNext(new StetError('STET_ERR_BACKEND_FAILED', 'device lost'));
    rig.note(await runStep(rig.scheduler, rig.backend, rig.clock.now));
    expect(rig.outcome('lost').reason).toBe('error');
    rig.scheduler.check();
    await rig.run();
    checkAnswers(rig, [saved]);
    rig.checkIdle();
  });

  it('turn what a backend throws into an error with a code', async () => {
    const rig = await Rig.create();
    rig.add(request({ id: 'lost' }));
    rig.backend.failNext(new TypeError('not a StetError'));
    const events = await runStep(rig.scheduler, rig.backend, rig.clock.now);
    expect(events).toMatchObject([
      { kind: 'finish', id: 'lost', reason: 'error', error: { code: 'STET_ERR_BACKEND_FAILED' } },
    ]);
  });

  it('are empty when nothing can run', async () => {
    const rig = await Rig.create();
    expect(await runStep(rig.scheduler, rig.backend, rig.clock.now)).toEqual([]);
  });
});

describe('pausing', () => {
  it('keeps a sequence out of steps, and the others unharmed', async () => {
    const rig = await Rig.create();
    const [slow, quick] = [request({ id: 'slow' }), request({ id: 'quick' })];
    rig.add(slow);
    rig.add(quick);
    await rig.step();
    rig.scheduler.pause('slow');
    await rig.run();
    expect(rig.outcome('quick').reason).toBe('length');
    expect(rig.outcome('slow').tokens.length).toBeLessThan(20);
    rig.scheduler.resume('slow');
    await rig.run();
    checkAnswers(rig, [slow, quick]);
  });

  it.each([
    ['running', 20, 18],
    ['waiting', 28, 26],
  ])('gives the blocks of a paused sequence to a %s one that needs them', async (_state, maxTokens, steps) => {
    const rig = await Rig.create({ load: { blockCount: 9 } });
    const [slow, quick] = [request({ id: 'slow', maxTokens }), request({ id: 'quick', prompt: [9], maxTokens: 31 })];
    rig.add(slow);
    for (let i = 0; i < steps; i++) await rig.step();
    rig.scheduler.pause('slow');
    rig.add(quick);
    await rig.run();
    expect(rig.outcome('quick').reason).toBe('length');
    rig.scheduler.resume('slow');
    await rig.run();
    expect(rig.outcome('slow').stats!.preemptions).toBe(1);
    checkAnswers(rig, [slow, quick]);
    rig.checkIdle();
  });

  it('is nothing to an id that is not open', async () => {
    const { scheduler } = await Rig.create();
    scheduler.pause('nobody');
    scheduler.resume('nobody');
    scheduler.preempt('nobody');
    expect(scheduler.abort('nobody', 0)).toEqual([]);
    expect(scheduler.hasWork).toBe(false);
  });
});

describe('batches', () => {
  it('carry block tables of any length', async () => {
    const prompt = Array.from({ length: 300 }, (_, i) => (i * 5) % 64);
    const requests = [request({ prompt, maxTokens: 3 }), request({ prompt: prompt.slice(7), maxTokens: 3 })];
    await answer({ load: { blockSize: 1, blockCount: 900, contextLength: 512 } }, requests);
  });
});

describe('policies', () => {
  it('may change in the middle of a sequence', async () => {
    const rig = await Rig.create({ fake: { mismatchRate: 0.2 } });
    const one = request({ maxTokens: 60, topLogprobs: 1 });
    rig.add(one);
    await rig.run(undefined, (stepIndex) =>
      rig.scheduler.setPolicy(stepIndex % 7 < 3 ? direct() : dvr({ windowTokens: 5 })),
    );
    checkAnswers(rig, [one]);
  });

  it('verifies nothing under direct', async () => {
    const rig = await answer({ config: { policy: direct() } }, [request()]);
    expect(rig.scheduler.stats()).toMatchObject({ windows: 0, rollbacks: 0, fastRows: 0 });
  });
});
