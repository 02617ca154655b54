import { type Backend, type Draw, StetError, type TokenSampler } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import { dvr, GREEDY, PortableSampler, runStep, type SequenceRequest } from '../src/index.js';
import { checkAnswers, Rig, type RigOptions, request } from './rig.js';

/** Answers late, as one with threads of its own does; `meanwhile` runs before it answers. */
class LateSampler implements TokenSampler {
  readonly calls: number[] = [];
  private readonly portable = new PortableSampler(64);
  private readonly meanwhile: (draws: readonly Draw[]) => void;

  constructor(meanwhile: (draws: readonly Draw[]) => void = () => {}) {
    this.meanwhile = meanwhile;
  }

  async sample(draws: readonly Draw[]) {
    this.calls.push(draws.length);
    await Promise.resolve();
    this.meanwhile(draws);
    return this.portable.sample(draws);
  }
}

const sampled = { ...GREEDY, temperature: 1 };
const penalized = { ...sampled, repetitionPenalty: 1.3, frequencyPenalty: 0.5, logitBias: new Map([[5, 2]]) };

function mixedRequests(): SequenceRequest[] {
  return [
    request({ sampling: sampled, topLogprobs: 3 }),
    request({ sampling: penalized, seed: 11, topLogprobs: 2, maxTokens: 40 }),
    request({ sampling: { ...penalized, topP: 0.8 }, seed: 12, provisional: true, maxTokens: 30 }),
    request({ sampling: penalized, seed: 13, kind: 'ordinary', maxTokens: 30 }),
    request({}),
  ];
}

async function runWith(sampler: TokenSampler, requests: readonly SequenceRequest[], options: RigOptions = {}) {
  const rig = await Rig.create(options);
  const backend: Pick<Backend, 'forward' | 'sampler'> = { forward: (step) => rig.backend.forward(step), sampler };
  for (const one of requests) rig.add(one);
  while (rig.scheduler.hasWork) {
    rig.clock.advance(1);
    rig.note(await runStep(rig.scheduler, backend, rig.clock.now));
    rig.scheduler.check();
  }
  return rig;
}

describe('tokens that the backend draws', () => {
  it.each([
    ['that always agree', 0],
    ['that often differ', 0.3],
  ])('are those that the scheduler would draw, from fast logits %s', async (_name, mismatchRate) => {
    const fake = { mismatchRate };
    const sampler = new LateSampler();
    const requests = mixedRequests();
    const rig = await runWith(sampler, requests, { fake, config: { policy: dvr({ windowTokens: 6 }) } });
    checkAnswers(rig, requests, fake);
    rig.checkIdle();
    const own = await Rig.create({ fake, config: { policy: dvr({ windowTokens: 6 }) } });
    for (const one of requests) own.add(one);
    await own.run();
    for (const one of requests) expect(rig.outcome(one.id).tokens).toEqual(own.outcome(one.id).tokens);
    // All draws of a step come in one call, those of a window among them.
    expect(Math.max(...sampler.calls)).toBeGreaterThan(6);
    expect(Math.min(...sampler.calls)).toBeGreaterThan(0);
  });

  it('are not asked for where every row is greedy', async () => {
    const sampler = new LateSampler();
    const requests = [request({}), request({ kind: 'ordinary' })];
    checkAnswers(await runWith(sampler, requests), requests);
    expect(sampler.calls).toEqual([]);
  });

  it('are dropped for a request that is aborted or preempted meanwhile', async () => {
    const [gone, moved, stays] = [
      request({ sampling: sampled, maxTokens: 30 }),
      request({ sampling: penalized, maxTokens: 30 }),
      request({ sampling: sampled, seed: 9, topLogprobs: 1, maxTokens: 30 }),
    ];
    let calls = 0;
    let rig: Rig;
    const sampler = new LateSampler(() => {
      calls++;
      if (calls === 6) rig.note(rig.scheduler.abort(gone.id, rig.clock.now()));
      if (calls % 7 === 0) rig.scheduler.preempt(moved.id);
    });
    rig = await Rig.create({ config: { policy: dvr({ windowTokens: 4 }) } });
    const backend = { forward: rig.backend.forward.bind(rig.backend), sampler };
    for (const one of [gone, moved, stays]) rig.add(one);
    while (rig.scheduler.hasWork) {
      rig.note(await runStep(rig.scheduler, backend, rig.clock.now));
      rig.scheduler.check();
    }
    expect(rig.outcome(gone.id).reason).toBe('aborted');
    expect(rig.outcome(moved.id).stats!.preemptions).toBeGreaterThan(0);
    checkAnswers(rig, [moved, stays]);
    rig.checkIdle();
  });

  it('fail the requests of a step if they cannot be drawn; later requests go on', async () => {
    const portable = new PortableSampler(64);
    let failures = 1;
    const sampler: TokenSampler = {
      sample: (draws) => {
        if (failures-- > 0) throw new StetError('STET_ERR_OUT_OF_MEMORY', 'no memory for the draws');
        return portable.sample(draws);
      },
    };
    const [lost, saved] = [request({ sampling: sampled }), request({ sampling: sampled, seed: 8 })];
    const rig = await runWith(sampler, [lost, saved], { config: { limits: { maxRunning: 1 } } });
    expect(rig.outcome(lost.id).events).toMatchObject([
      { kind: 'finish', reason: 'error', error: { code: 'STET_ERR_OUT_OF_MEMORY' } },
    ]);
    checkAnswers(rig, [saved]);
    rig.checkIdle();
  });

  it('must answer every draw', async () => {
    const rig = await Rig.create();
    rig.add(request({ sampling: sampled }));
    const backend = { forward: rig.backend.forward.bind(rig.backend), sampler: { sample: () => [] } };
    await expect(runStep(rig.scheduler, backend, rig.clock.now)).rejects.toThrow('answers to other draws');
  });
});
