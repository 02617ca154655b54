import { type Backend, StetError } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import { dvr, GREEDY, PortableSampler, promptLookup, runStep, type SequenceRequest } from '../src/index.js';
import { checkAnswers, Rig, type RigOptions, request } from './rig.js';

const FAKE = { mismatchRate: 0.2 };
const LOST = new StetError('STET_ERR_DEVICE_LOST', 'the device fell off');

const longPrompt = Array.from({ length: 30 }, (_, i) => (i * 7) % 64);

function mixedRequests(): SequenceRequest[] {
  const sampled = { ...GREEDY, temperature: 1, frequencyPenalty: 0.5 };
  return [
    request({ prompt: longPrompt, topLogprobs: 2, maxTokens: 30 }),
    request({ prompt: longPrompt, sampling: sampled, provisional: true, topLogprobs: 1, maxTokens: 25 }),
    request({ kind: 'ordinary', prompt: longPrompt.slice(0, 20), maxTokens: 25 }),
    request({ prompt: [5], provisional: true }),
  ];
}

/** Plans a step whose device goes away before its result, or as its tokens are drawn, with all that the blocks held. */
async function loseStep(rig: Rig, when: 'forward' | 'draws'): Promise<void> {
  const planned = rig.scheduler.plan(rig.clock.now());
  if (!planned) return;
  const result = await rig.backend.forward(planned.step);
  if (when === 'draws') rig.scheduler.draws(planned, result);
  rig.backend.poison(Array.from({ length: rig.backend.info.blockCount }, (_, block) => block));
  rig.note(rig.scheduler.deviceLost(planned));
  rig.scheduler.check();
}

const settings: [name: string, options: RigOptions][] = [
  ['a portable backend', { fake: FAKE, config: { policy: dvr({ windowTokens: 6 }) } }],
  ['few blocks', { fake: FAKE, load: { blockCount: 24 }, config: { policy: dvr({ windowTokens: 6 }) } }],
  ['small batches', { fake: FAKE, config: { policy: dvr({ windowTokens: 6 }), limits: { canonicalBudget: 7 } } }],
  ['a drafter', { fake: FAKE, config: { policy: dvr({ windowTokens: 6 }), drafter: promptLookup() } }],
  ['a fixed shape', { fake: { ...FAKE, canonicalShape: { sequenceCount: 2, windowTokens: 8 } } }],
];

describe('a lost device', () => {
  it.each(settings)('changes no token and no log-probability, whichever step it is lost in: %s', async (_, options) => {
    for (const when of ['forward', 'draws'] as const) {
      for (let lostStep = 0; lostStep < 30; lostStep++) {
        const rig = await Rig.create(options);
        const requests = mixedRequests();
        for (const one of requests) rig.add(one);
        for (let step = 0; step < lostStep && rig.scheduler.hasWork; step++) await rig.step();
        const isOver = !rig.scheduler.hasWork;
        await loseStep(rig, when);
        if (!isOver) expect(rig.scheduler.stats().running).toBe(0);
        await rig.run();
        checkAnswers(rig, requests, FAKE);
        rig.checkIdle();
      }
    }
  });

  it('leaves every block free, every sequence waiting, and no candidate shown', async () => {
    const rig = await Rig.create({ fake: FAKE, config: { policy: dvr({ windowTokens: 100, maxHoldMs: 1e9 }) } });
    const requests = mixedRequests();
    for (const one of requests) rig.add(one);
    while (rig.outcome(requests[3]!.id).provisional.length < 5) await rig.step();
    const before = rig.scheduler.stats();
    expect(before.running).toBe(4);
    const committed = requests.map(({ id }) => rig.outcome(id).tokens.length);
    await loseStep(rig, 'forward');
    const after = rig.scheduler.stats();
    expect(after).toMatchObject({ running: 0, waiting: 4, committedTokens: before.committedTokens });
    expect(after.kv).toMatchObject({ free: after.kv.total, cached: 0, held: 0, evictions: before.kv.evictions });
    expect(after.preemptions).toBe(before.preemptions + 4);
    expect(requests.map(({ id }) => rig.outcome(id).tokens.length)).toEqual(committed);
    for (const { id } of requests) expect(rig.outcome(id).provisional).toEqual([]);
    expect(rig.outcome(requests[3]!.id).events.at(-1)).toMatchObject({ kind: 'rollback', to: committed[3]! });
  });

  it('is not found in the prefix cache: later prompts are computed anew', async () => {
    const rig = await Rig.create();
    rig.add(request({ id: 'first', prompt: longPrompt }));
    await rig.run();
    rig.add(request({ id: 'warm', prompt: longPrompt }));
    await loseStep(rig, 'forward');
    await rig.run();
    const cold = request({ id: 'after', prompt: longPrompt });
    rig.add(cold);
    await rig.run();
    // What `warm` found at its first admission is what it reports; `after` finds what `warm` has rebuilt.
    expect(rig.outcome('warm').stats).toMatchObject({ cachedTokens: 28, preemptions: 1 });
    expect(rig.outcome('after').stats!.cachedTokens).toBe(28);
    const rows = rig.backend.log.flatMap(({ canonical }) => canonical?.sequences ?? []);
    expect(rows.filter(({ position }) => position === 0)).toHaveLength(2);
    checkAnswers(rig, [cold]);
  });

  it('again and again does not starve anybody who commits between', async () => {
    const rig = await Rig.create({ fake: FAKE, config: { limits: { maxRunning: 2 } } });
    const requests = mixedRequests();
    for (const one of requests) rig.add(one);
    for (let steps = 0; rig.scheduler.hasWork; steps++) {
      expect(steps).toBeLessThan(400);
      await rig.step();
      if (rig.scheduler.hasWork) await loseStep(rig, steps % 2 ? 'forward' : 'draws');
    }
    checkAnswers(rig, requests, FAKE);
  });

  it('is none of the business of a request that was aborted meanwhile', async () => {
    const rig = await Rig.create();
    const [gone, stays] = [request({ id: 'gone' }), request({ id: 'stays' })];
    rig.add(gone);
    rig.add(stays);
    await rig.step();
    const planned = rig.scheduler.plan(rig.clock.now())!;
    rig.note(rig.scheduler.abort('gone', rig.clock.now()));
    rig.note(rig.scheduler.deviceLost(planned));
    await rig.run();
    expect(rig.outcome('gone').reason).toBe('aborted');
    checkAnswers(rig, [stays]);
  });
});

describe('a step on a lost device', () => {
  const lostAt = (rig: Rig, place: 'forward' | 'sampler'): Pick<Backend, 'forward' | 'sampler'> => ({
    forward: (step) => (place === 'forward' ? Promise.reject(LOST) : rig.backend.forward(step)),
    sampler: { sample: () => Promise.reject(LOST) },
  });

  it.each(['forward', 'sampler'] as const)('tells its caller, and fails nobody: %s', async (place) => {
    const rig = await Rig.create();
    const one = request({ id: 'one', topLogprobs: 0 });
    rig.add(one);
    const losses: StetError[] = [];
    const hooks = { deviceLost: (error: StetError) => losses.push(error) };
    expect(await runStep(rig.scheduler, lostAt(rig, place), rig.clock.now, hooks)).toEqual([]);
    expect(losses).toEqual([LOST]);
    expect(rig.scheduler.stats()).toMatchObject({ running: 0, waiting: 1, preemptions: 1 });
    const sampler = new PortableSampler(64);
    const live = { forward: (step: Parameters<Backend['forward']>[0]) => rig.backend.forward(step), sampler };
    while (rig.scheduler.hasWork) rig.note(await runStep(rig.scheduler, live, rig.clock.now, hooks));
    expect(losses).toHaveLength(1);
    checkAnswers(rig, [one]);
  });

  it('fails its requests where the caller has no other device', async () => {
    const rig = await Rig.create();
    rig.add(request({ id: 'one' }));
    expect(await runStep(rig.scheduler, lostAt(rig, 'forward'), rig.clock.now)).toMatchObject([
      { kind: 'finish', id: 'one', reason: 'error', error: LOST },
    ]);
    rig.checkIdle();
  });

  it('can be followed by the end of all requests, waiting and running', async () => {
    const rig = await Rig.create({ config: { limits: { maxRunning: 1 } } });
    for (const id of ['a', 'b', 'c']) rig.add(request({ id }));
    await rig.step();
    rig.note(rig.scheduler.failAll(LOST, rig.clock.now()));
    for (const id of ['a', 'b', 'c']) {
      expect(rig.outcome(id).events.at(-1)).toMatchObject({ kind: 'finish', reason: 'error', error: LOST });
    }
    rig.scheduler.check();
    rig.checkIdle();
  });
});
