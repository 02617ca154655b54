import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { describe, expect, it } from 'vitest';
import { withoutGpu } from '../../../packages/backend-webgpu/test/support/gpu.js';
import type { Clock } from '../../src/kernels/clock.js';
import { openTimedWebGpu } from '../../src/kernels/gpu-clock.js';
import { measureProbe } from '../../src/kernels/measure.js';
import { modelProbes } from '../../src/kernels/model-probes.js';
import { probeWeights } from '../../src/roofline/probe-plan.js';
import { plan } from '../roofline/support/small-plan.js';

const cpu = cpuFeatures();
const probes = modelProbes(plan, { formats: ['bf16'], contexts: [16] });
const norm = probes.find(({ kernel }) => kernel.startsWith('rmsNorm'))!;
const scale = { rounds: 2, targetSeconds: 1e-4 };

/** Says that each forward takes as long as the next of the numbers. */
function scripted(seconds: readonly number[]): Clock {
  let next = 0;
  return {
    words: 'a script',
    seconds: async (forward) => {
      await forward();
      // A sample is one forward then.
      await new Promise((resolve) => setTimeout(resolve, 6));
      return seconds[next++ % seconds.length]!;
    },
  };
}

describe.skipIf(!cpu.available)(`a measurement${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`, () => {
  const create = createCpuBackend({ threads: 1, selfTest: false });
  const close = () => {};

  it('is the time with the operation less the time without it, for each of its copies', async () => {
    // Without and with it, fast and canonical: 10 and 20 µs of operation.
    const clock = scripted([0.001, 0.002, 0.00101, 0.00202]);
    const options = { backends: { create, close, clock }, rowCounts: [1, 4], budgetSeconds: 60, ...scale };
    const { timings, skipped } = await measureProbe(norm, options);
    expect(skipped).toBeUndefined();
    expect(timings.map(({ rows, copies, rounds }) => ({ rows, copies, rounds }))).toEqual([
      { rows: 1, copies: 4, rounds: 2 },
      { rows: 4, copies: 4, rounds: 2 },
    ]);
    for (const { fast, canonical } of timings) {
      expect(fast.best).toBeCloseTo(10e-6 / 4, 9);
      expect(canonical.best).toBeCloseTo(20e-6 / 4, 9);
      expect(canonical.median).toBeCloseTo(20e-6 / 4, 9);
    }
  });

  it('leaves out rows that there is no time for, but not the first, and says so', async () => {
    const options = {
      backends: { create, close, clock: scripted([1]) },
      rowCounts: [1, 4],
      budgetSeconds: 0,
      ...scale,
    };
    const { timings, skipped } = await measureProbe(norm, options);
    expect(timings.map(({ rows, rounds }) => ({ rows, rounds }))).toEqual([{ rows: 1, rounds: 1 }]);
    expect(skipped).toBe('4 rows and more would take too long here');
  });
});

describe.skipIf(withoutGpu)('the clock of a GPU', () => {
  it('has seen the passes of a forward, fast and canonical', { timeout: 300_000 }, async () => {
    const backends = await openTimedWebGpu();
    const linear = probes.find(({ kernel }) => kernel.startsWith('down_proj'))!;
    const options = { backends, rowCounts: [16], budgetSeconds: 0, ...scale };
    const { timings, device } = await measureProbe(linear, options);
    expect(device).not.toBe('');
    const [{ fast, canonical }] = timings as [(typeof timings)[number]];
    for (const { best, median } of [fast, canonical]) expect([best, median].every(Number.isFinite)).toBe(true);
    const batch = linear.batch(16);
    const backend = await backends.create({
      ...{ plan: linear.plan(4, 'all'), weights: probeWeights() },
      ...{ blockSize: 16, blockCount: linear.blockCount(16), maxRows: 16 },
    });
    const start = performance.now();
    const seconds = await backends.clock.seconds(() => backend.forward({ canonical: batch }));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual((performance.now() - start) / 1000);
    await backend.close();
    backends.close();
  });
});

if (withoutGpu !== undefined) it.skip(`no GPU is timed here (${withoutGpu})`, () => {});
