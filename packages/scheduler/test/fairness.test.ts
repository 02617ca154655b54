import { describe, expect, it } from 'vitest';
import { dvr, type SequenceRequest } from '../src/index.js';
import { PRIORITY_MS } from '../src/queues.js';
import { answer, checkAnswers, Rig, request } from './rig.js';

describe('priorities', () => {
  it('let a higher one go first', async () => {
    const rig = await Rig.create({ config: { limits: { maxRunning: 1 } } });
    for (const [id, priority] of [
      ['low', 0],
      ['high', 2],
      ['middle', 1],
    ] as const)
      rig.add(request({ id, priority, maxTokens: 4 }));
    const order: string[] = [];
    await rig.run(() => {
      for (const [id, outcome] of rig.outcomes) if (outcome.tokens.length > 0 && !order.includes(id)) order.push(id);
    });
    for (const id of rig.outcomes.keys()) if (!order.includes(id)) order.push(id);
    expect(order).toEqual(['high', 'middle', 'low']);
  });

  it('starve nobody: enough waiting beats any stream of higher ones', async () => {
    const rig = await Rig.create({ config: { limits: { maxRunning: 1 } } });
    rig.add(request({ id: 'patient', priority: 0, maxTokens: 3 }));
    let sent = 0;
    const others: string[] = [];
    for (let i = 0; rig.outcome('patient').reason === undefined && i < 400; i++) {
      const id = `urgent${sent++}`;
      others.push(id);
      rig.add(request({ id, priority: 3, maxTokens: 2 }));
      await rig.step();
      rig.clock.advance(PRIORITY_MS / 10);
    }
    expect(rig.outcome('patient').reason).toBe('length');
    expect(others.some((id) => rig.outcome(id).reason === undefined)).toBe(true);
  });
});

describe('fairness of the two kinds', () => {
  const flood = (kind: 'deterministic' | 'ordinary') =>
    Array.from({ length: 60 }, (_, i) =>
      request({ kind, prompt: Array.from({ length: 20 }, (_, j) => (i + j) % 64), maxTokens: 12 }),
    );

  it.each(['deterministic', 'ordinary'] as const)('lets one request through a flood of %s ones', async (kind) => {
    const rig = await Rig.create({
      load: { blockCount: 200 },
      config: { policy: dvr({ windowTokens: 4 }), limits: { maxRunning: 16, fastBudget: 24, canonicalBudget: 24 } },
    });
    const crowd = flood(kind);
    const arrive = (one: SequenceRequest) => {
      rig.add(one);
      rig.clock.advance(1);
    };
    crowd.slice(0, 30).forEach(arrive);
    const lone = request({ kind: kind === 'ordinary' ? 'deterministic' : 'ordinary', maxTokens: 12 });
    arrive(lone);
    crowd.slice(30).forEach(arrive);
    let endedAfter = 0;
    await rig.run(() => {
      if (rig.outcome(lone.id).reason === undefined)
        endedAfter = crowd.filter(({ id }) => rig.outcome(id).reason !== undefined).length;
    });
    expect(endedAfter).toBeLessThan(45);
    checkAnswers(rig, [lone, ...crowd]);
  });

  it('gives their prompts one turn each, in the order they came', async () => {
    const rig = await Rig.create({
      load: { blockCount: 400 },
      config: { limits: { maxRunning: 64, fastBudget: 64, canonicalBudget: 64, prefillBudget: 16 } },
    });
    const beside = request({ kind: 'ordinary', maxTokens: 100 });
    rig.add(beside);
    await rig.step();
    const prompts = flood('ordinary').slice(0, 40);
    const crowd = prompts.map((one, i): SequenceRequest => (i % 5 === 4 ? { ...one, kind: 'deterministic' } : one));
    for (const one of crowd) {
      rig.clock.advance(1);
      rig.add(one);
    }
    const order: string[] = [];
    await rig.run(() => {
      for (const { id } of crowd) if (rig.outcome(id).tokens.length > 0 && !order.includes(id)) order.push(id);
    });
    const overtaken = crowd.map(({ id }, i) => i - order.indexOf(id));
    expect(Math.max(...overtaken)).toBeLessThanOrEqual(1);
    checkAnswers(rig, [beside, ...crowd]);
  });
});

describe('a request after another', () => {
  it('waits for its prefill and shares its prompt', async () => {
    const prompt = Array.from({ length: 21 }, (_, i) => i);
    const first = request({ id: 'first', prompt, maxTokens: 10 });
    const second = request({ id: 'second', prompt, maxTokens: 10, seed: 8, after: 'first' });
    const rig = await answer({ config: { limits: { prefillBudget: 4 } } }, [first, second]);
    expect(rig.outcome('second').stats!.cachedTokens).toBe(20);
    expect(rig.outcome('first').stats!.cachedTokens).toBe(0);
  });

  it('does not wait for one that was aborted or never was', async () => {
    const rig = await Rig.create();
    const [gone, late, orphan] = [
      request({ id: 'gone' }),
      request({ id: 'late', after: 'gone' }),
      request({ id: 'orphan', after: 'nobody' }),
    ];
    for (const one of [gone, late, orphan]) rig.add(one);
    rig.note(rig.scheduler.abort('gone', 0));
    await rig.run();
    checkAnswers(rig, [late, orphan]);
  });
});
