import { describe, expect, it } from 'vitest';
import { direct, dvr } from '../src/index.js';
import { answer, checkAnswers, Rig, request } from './rig.js';

/** What the simulator found, in the fewest steps. */
describe('found by simulation', () => {
  it('a paused sequence gives up its seat for one that can go on', async () => {
    const rig = await Rig.create({ config: { limits: { maxRunning: 1 } } });
    const [slow, quick] = [request({ id: 'slow' }), request({ id: 'quick', prompt: [9] })];
    rig.add(slow);
    await rig.step();
    rig.scheduler.pause('slow');
    rig.add(quick);
    await rig.run();
    expect(rig.outcome('quick').reason).toBe('length');
    rig.scheduler.resume('slow');
    await rig.run();
    checkAnswers(rig, [slow, quick]);
  });

  it('a paused sequence does not hold up those that come after its prefill', async () => {
    const rig = await Rig.create();
    const second = request({ id: 'second', after: 'first' });
    rig.add(request({ id: 'first' }));
    rig.add(second);
    rig.scheduler.pause('first');
    await rig.run();
    checkAnswers(rig, [second]);
  });

  it('no rollback is reported after an abort, also if a preemption left one to report', async () => {
    const rig = await Rig.create();
    const other = request({ prompt: [4] });
    rig.add(request({ id: 'gone', provisional: true }));
    rig.add(other);
    for (let i = 0; i < 5; i++) await rig.step();
    expect(rig.outcome('gone').provisional.length).toBeGreaterThan(0);
    rig.scheduler.preempt('gone');
    rig.note(rig.scheduler.abort('gone', rig.clock.now()));
    expect(rig.outcome('gone').events.slice(-2)).toMatchObject([{ kind: 'rollback', to: 1 }, { kind: 'finish' }]);
    await rig.run();
    checkAnswers(rig, [other]);
  });

  it('a fixed-shape sequence writes no block that it found in the prefix cache', async () => {
    const prompt = Array.from({ length: 10 }, (_, i) => i);
    const canonicalShape = { sequenceCount: 2, windowTokens: 3 };
    const rig = await answer({ fake: { canonicalShape } }, [request({ prompt })]);
    const again = request({ id: 'again', prompt });
    rig.add(again);
    await rig.run();
    // The cache has 8 tokens in two blocks, two whole windows of which end inside the second block.
    expect(rig.outcome('again').stats!.cachedTokens).toBe(0);
    const longer = request({ id: 'longer', prompt: [...prompt, ...rig.outcome('again').tokens.slice(0, 4)] });
    rig.add(longer);
    await rig.run();
    expect(rig.outcome('longer').stats!.cachedTokens).toBe(12);
    checkAnswers(rig, [again, longer]);
  });

  it.each([1, 2, 5])(
    'a prompt gets its share of %i rows, however many deterministic sequences decode',
    async (rows) => {
      const limits = { maxRunning: 8, fastBudget: rows };
      const rig = await Rig.create({
        load: { blockCount: 200 },
        config: { policy: dvr({ windowTokens: 2 }), limits, prefixCache: 'off' },
      });
      const crowd = Array.from({ length: 7 }, (_, i) => request({ prompt: [i], maxTokens: 100 }));
      for (const one of crowd) rig.add(one);
      for (let i = 0; i < 20; i++) await rig.step();
      const lone = request({ id: 'lone', kind: 'ordinary', prompt: [1, 2, 3, 4, 5, 6], maxTokens: 1 });
      rig.add(lone);
      for (let i = 0; i < 15; i++) await rig.step();
      expect(rig.outcome('lone').reason).toBe('length');
    },
  );

  it('a window gets its share of a fixed shape of one place while a prompt takes many passes', async () => {
    const rig = await Rig.create({
      fake: { canonicalShape: { sequenceCount: 1, windowTokens: 1 } },
      config: { policy: direct() },
    });
    const early = request({ id: 'early', prompt: [1], maxTokens: 10 });
    const long = request({ id: 'long', prompt: Array.from({ length: 60 }, (_, i) => i), maxTokens: 2 });
    rig.add(early);
    await rig.step();
    rig.add(long);
    for (let i = 0; i < 20; i++) await rig.step();
    expect(rig.outcome('early').reason).toBe('length');
    await rig.run();
    checkAnswers(rig, [early, long]);
  });
});
