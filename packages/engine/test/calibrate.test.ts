import { type Backend, type BackendInfo, createStepChecker, type Step, type StepResult } from '@stet/backend';
import { createFakeBackend, fakeLoad } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { calibrate } from '../src/index.js';
import { fakeEngine, readAll } from './helpers.js';

interface TimedBackend extends Backend {
  readonly clock: () => number;
  readonly steps: readonly Step[];
}

/** A backend whose forwards take the given milliseconds of a clock that stands still otherwise. */
async function timedBackend(
  costMs: (schedule: 'fast' | 'canonical', rows: number, call: number) => number,
  changes: Partial<BackendInfo> = {},
): Promise<TimedBackend> {
  const { canonicalShape } = changes;
  const backend = await createFakeBackend({ ...(canonicalShape && { canonicalShape }) })(
    fakeLoad({ blockSize: 4, blockCount: 100, maxRows: 128 }),
  );
  const info = { ...backend.info, ...changes };
  const check = createStepChecker(info);
  const steps: Step[] = [];
  let nowMs = 1000;
  return {
    info,
    steps,
    clock: () => nowMs,
    close: () => backend.close(),
    forward: async (step): Promise<StepResult> => {
      check(step);
      const schedule = step.fast ? 'fast' : 'canonical';
      nowMs += costMs(schedule, step[schedule]!.tokens.length, steps.length);
      steps.push(step);
      return backend.forward(step);
    },
  };
}

const linear = (schedule: 'fast' | 'canonical', rows: number) => (schedule === 'fast' ? 0.1 : 0.2) + rows / 64;

describe('calibration', () => {
  it('times both schedules at 1, 4, 16 and 64 rows, one batch a step', async () => {
    const backend = await timedBackend(linear);
    const points = await calibrate(backend, { clock: backend.clock, budgetMs: 50 });
    expect(points).toEqual(
      [1, 4, 16, 64].flatMap((rows) =>
        (['fast', 'canonical'] as const).map((schedule) => ({
          schedule,
          rows,
          elapsedMs: expect.closeTo(linear(schedule, rows), 9) as number,
        })),
      ),
    );
    expect(backend.steps.every(({ fast, canonical }) => !fast !== !canonical)).toBe(true);
  });

  it('takes the median, so that neither a cold first forward nor a hiccup counts', async () => {
    const backend = await timedBackend((_, __, call) => (call === 0 ? 9 : call === 8 ? 7 : 0.25));
    const points = await calibrate(backend, { clock: backend.clock, budgetMs: 50 });
    expect(points.length).toBe(8);
    for (const { elapsedMs } of points) expect(elapsedMs).toBe(0.25);
  });

  it('begins no forward that would probably pass the budget', async () => {
    for (const msPerRow of [0.05, 0.3, 1, 3]) {
      const backend = await timedBackend((_, rows) => rows * msPerRow);
      const startMs = backend.clock();
      const points = await calibrate(backend, { clock: backend.clock, budgetMs: 50 });
      expect(backend.clock() - startMs).toBeLessThanOrEqual(50);
      expect(points.length).toBeGreaterThan(0);
      expect(points.length).toBeLessThan(msPerRow > 0.1 ? 8 : 9);
    }
  });

  it('gives up where a single row passes the budget, after that one', async () => {
    const backend = await timedBackend(() => 60);
    expect(await calibrate(backend, { clock: backend.clock, budgetMs: 50 })).toEqual([]);
    expect(backend.steps.length).toBe(1);
  });

  it('knows nothing where the clock is too coarse', async () => {
    const backend = await timedBackend(() => 0);
    expect(await calibrate(backend, { clock: backend.clock, budgetMs: 50 })).toEqual([]);
  });

  it('asks for no more rows than the backend, its blocks and the caller allow', async () => {
    const most = async (changes: Partial<BackendInfo>, maxRows?: number) => {
      const backend = await timedBackend(linear, changes);
      const points = await calibrate(backend, { clock: backend.clock, budgetMs: 50, ...(maxRows && { maxRows }) });
      return Math.max(...points.map(({ rows }) => rows));
    };
    expect(await most({})).toBe(64);
    expect(await most({ maxRows: 16 })).toBe(16);
    expect(await most({ blockCount: 16 })).toBe(4);
    expect(await most({ blockCount: 17 })).toBe(16);
    expect(await most({}, 32)).toBe(16);
  });

  it('runs a fixed shape whole, on the scratch block', async () => {
    const backend = await timedBackend(linear, { canonicalShape: { sequenceCount: 3, windowTokens: 8 } });
    const points = await calibrate(backend, { clock: backend.clock, budgetMs: 50 });
    const canonical = points.filter(({ schedule }) => schedule === 'canonical');
    expect(canonical.map(({ rows }) => rows)).toEqual([1, 4, 16, 64]);
    for (const { elapsedMs } of canonical) expect(elapsedMs).toBeCloseTo(linear('canonical', 24), 9);
    const blocks = new Set(backend.steps.flatMap((step) => [...(step.canonical?.blocks ?? [])]));
    expect(blocks).toEqual(new Set([0]));
  });

  it('ends with the signal', async () => {
    const controller = new AbortController();
    const backend = await timedBackend((_, __, call) => {
      if (call === 4) controller.abort();
      return 0.1;
    });
    const options = { clock: backend.clock, budgetMs: 50, signal: controller.signal };
    await expect(calibrate(backend, options)).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(backend.steps.length).toBe(5);
  });
});

describe('an engine', () => {
  it('is calibrated only where there is something to choose', async () => {
    const stepsOf = async (options: Parameters<typeof fakeEngine>[0]) => {
      await using fake = await fakeEngine(options);
      return [fake.engine.info.policy, fake.backend.stepCount > 0];
    };
    expect(await stepsOf({ mismatchRate: 0.1, engine: { policy: 'auto' } })).toEqual(['auto', true]);
    expect(await stepsOf({ fastKvDeviates: false, engine: { policy: 'auto' } })).toEqual(['direct', false]);
    expect(await stepsOf({ engine: { policy: 'direct' } })).toEqual(['direct', false]);
    expect(await stepsOf({ engine: { policy: 'dvr' } })).toEqual(['dvr(16)', false]);
  });

  it('answers as if the calibration had never been, though it wrote to the blocks', async () => {
    const answers = [];
    for (const policy of ['auto', 'direct'] as const) {
      await using fake = await fakeEngine({ engine: { policy } });
      answers.push(
        await Promise.all(
          [0, 1, 2, 3].map((i) =>
            readAll(
              fake.engine.generate({
                ...{ promptTokens: [1, 2, i], maxTokens: 60, ignoreEos: true, seed: i, temperature: 1 },
                deterministic: true,
              }),
            ),
          ),
        ),
      );
    }
    const [withIt, without] = answers.map((all) => all.map(({ tokens, hash }) => ({ tokens, hash })));
    expect(withIt).toEqual(without);
  });

  it('is not created where its policy is unknown, and its creation ends with the signal', async () => {
    let closedModels = 0;
    const model = { close: async () => void closedModels++ };
    await expect(fakeEngine({ model, engine: { policy: 'fast' as never } })).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
      message: expect.stringContaining('"fast"'),
    });
    const signal = AbortSignal.abort();
    await expect(fakeEngine({ model, engine: { policy: 'auto', signal } })).rejects.toMatchObject({
      code: 'STET_ERR_ABORTED',
    });
    expect(closedModels).toBe(2);
  });
});
