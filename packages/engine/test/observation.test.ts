import { StetError } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import type { CommitSample, EndSample, EngineObserver, GenerateRequest, StepSample } from '../src/index.js';
import { fakeEngine, readAll, until } from './helpers.js';

const ORDINARY = { promptTokens: [1, 2, 3], maxTokens: 12, ignoreEos: true } as const satisfies GenerateRequest;
const DETERMINISTIC = { ...ORDINARY, promptTokens: [4, 5, 6, 7], deterministic: true, seed: 3 } as const;

function recorder() {
  const steps: StepSample[] = [];
  const commits: CommitSample[] = [];
  const ends: EndSample[] = [];
  const refused: string[] = [];
  const observer: EngineObserver = {
    onStep: (step) => void steps.push(step),
    onCommit: (commit) => void commits.push(commit),
    onEnd: (end) => void ends.push(end),
    onRefused: ({ code }) => void refused.push(code),
  };
  return { steps, commits, ends, refused, observer };
}

describe('whoever watches an engine', () => {
  it('is told of every step, commit and end, as the totals have them', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.3 });
    const { engine } = fake;
    const { steps, commits, ends, observer } = recorder();
    engine.observe(observer);
    const answers = await Promise.all([ORDINARY, DETERMINISTIC].map((request) => readAll(engine.generate(request))));
    const stats = engine.stats();
    expect(steps).toHaveLength(stats.steps);
    const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
    expect(sum(steps.map(({ fastRows }) => fastRows))).toBe(stats.fastRows);
    expect(sum(steps.map(({ canonicalRows }) => canonicalRows))).toBe(stats.canonicalRows);
    for (const { elapsedMs } of [...steps, ...commits]) expect(elapsedMs).toBeGreaterThanOrEqual(0);
    for (const [index, deterministic] of [false, true].entries()) {
      const own = commits.filter((commit) => commit.deterministic === deterministic);
      expect(own.map(({ isFirst }) => isFirst)).toEqual(own.map((_, position) => position === 0));
      expect(sum(own.map(({ tokenCount }) => tokenCount))).toBe(12);
      const { usage, stats: answerStats } = answers[index]!.done;
      const [end, ...others] = ends.filter((one) => one.deterministic === deterministic);
      expect([end!.outcome, others]).toEqual(['length', []]);
      expect(end!.stats).toMatchObject({
        promptTokens: usage.promptTokens,
        outputTokens: 12,
        windows: answerStats.windows,
        rollbacks: answerStats.rollbacks,
        recomputedTokens: answerStats.recomputedTokens,
        cachedTokens: answerStats.cachedTokens,
      });
    }
    expect(sum(ends.map(({ stats: own }) => own!.rollbacks))).toBe(stats.rollbacks);
    expect(stats.rollbacks).toBeGreaterThan(0);
  });

  it('is told of what was refused and what was aborted, until it looks away', async () => {
    await using fake = await fakeEngine();
    const { engine } = fake;
    const { ends, refused, observer } = recorder();
    const lookAway = engine.observe(observer);
    await expect(readAll(engine.generate({ promptTokens: [] }))).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
    });
    expect(refused).toEqual(['STET_ERR_BAD_REQUEST']);
    const controller = new AbortController();
    const aborted = readAll(engine.generate({ ...ORDINARY, maxTokens: 200 }, { signal: controller.signal }));
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(ends).toEqual([
      { deterministic: false, outcome: 'aborted', stats: expect.objectContaining({ promptTokens: 3 }) },
    ]);
    lookAway();
    await readAll(engine.generate(ORDINARY));
    expect(ends).toHaveLength(1);
  });

  it('counts each choice of a request', async () => {
    await using fake = await fakeEngine();
    const { ends, observer } = recorder();
    fake.engine.observe(observer);
    await fake.engine.completions.create({ prompt: [1, 2, 3], n: 3, max_tokens: 4 });
    expect(ends).toHaveLength(3);
  });
});

describe('the health of an engine', () => {
  const lost = new StetError('STET_ERR_DEVICE_LOST', 'the device fell off');

  it('is recreating while a backend is made in place of a lost one, and then ready again', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    await using fake = await fakeEngine({
      wrap: (backend, creation) =>
        creation > 0
          ? backend
          : { info: backend.info, forward: () => Promise.reject(lost), close: () => backend.close() },
      beforeCreate: (creation) => (creation > 0 ? gate : undefined),
    });
    expect(fake.engine.health).toEqual({ state: 'ready' });
    const answer = readAll(fake.engine.generate(ORDINARY));
    await until(() => fake.creations() === 2, 'another backend is asked for');
    expect(fake.engine.health).toEqual({ state: 'recreating' });
    open();
    await answer;
    expect(fake.engine.health).toEqual({ state: 'ready' });
  });

  it('is gone once no backend can be made, and once it is closed', async () => {
    const fake = await fakeEngine({
      engine: { onDeviceLost: 'fail' },
      wrap: (backend) => ({ info: backend.info, forward: () => Promise.reject(lost), close: () => backend.close() }),
    });
    const { ends, observer } = recorder();
    fake.engine.observe(observer);
    await expect(readAll(fake.engine.generate(ORDINARY))).rejects.toMatchObject({ code: lost.code });
    expect(fake.engine.health).toEqual({ state: 'gone', error: expect.objectContaining({ code: lost.code }) });
    expect(ends.map(({ outcome }) => outcome)).toEqual(['error']);
    await fake.engine.close();
    expect(fake.engine.health).toMatchObject({ state: 'gone', error: { code: 'STET_ERR_ENGINE_CLOSED' } });
  });
});
