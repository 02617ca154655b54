import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { WeightSource } from '@stet/backend';
import { buildModel, conformanceModels, expectEqualBits, type ModelShape } from '@stet/backend/conformance';
import { describe, expect, it } from 'vitest';
import {
  type CpuOptions,
  cpuFeatures,
  createCpuBackend,
  createCpuOpRunner,
  liveBytes,
  MAX_HEAD_SIZE,
  MAX_ROWS,
} from '../src/index.js';
import { largeModel, largeSizes, promptBatch } from './support/long-step.js';
import { isas, withoutAddon } from './support/machine.js';

const [model] = conformanceModels();
const wideHeads: ModelShape = {
  name: 'wide heads',
  seed: 3,
  vocabSize: 64,
  contextLength: 64,
  layerCount: 1,
  hiddenSize: 32,
  headCount: 1,
  kvHeadCount: 1,
  headSize: 32,
  feedForwardSize: 32,
  hasBiases: false,
  head: 'tied',
  attentionFormat: 'bf16',
  feedForwardFormat: 'bf16',
  headFormat: 'bf16',
};
const sizes = { blockSize: 16, blockCount: 20, maxRows: 64 };

describe.skipIf(withoutAddon)('a CPU backend', () => {
  it('leaves nothing behind in 50 rounds of load, step and close', async () => {
    const factory = createCpuBackend({ threads: 3 });
    for (let round = 0; round < 50; round++) {
      const backend = await factory({ plan: model.plan, weights: model.weights, ...sizes });
      const { weightBytes, kvBytes, scratchBytes } = backend.info.memory;
      expect(liveBytes()).toBe(weightBytes + kvBytes + scratchBytes);
      await backend.forward({ fast: smallPrompt(20, 1), canonical: smallPrompt(20, 5) });
      await backend.close();
      expect(liveBytes()).toBe(0);
    }
  });

  it('finishes the step in flight before it closes', async () => {
    const backend = await createCpuBackend({ isa: 'scalar' })({ ...largeModel(), ...largeSizes });
    const step = backend.forward({ canonical: promptBatch(100) });
    const closed = Promise.all([backend.close(), backend.close()]);
    await expect(step).resolves.toHaveProperty('canonical.argmax.length', 1);
    await closed;
    await expect(backend.forward({ canonical: promptBatch(100) })).rejects.toMatchObject({
      code: 'STET_ERR_BACKEND_CLOSED',
    });
    expect(liveBytes()).toBe(0);
  });

  it('runs beside another one, each with its own K/V', async () => {
    const factory = createCpuBackend({ threads: 2 });
    const [first, second, third] = await Promise.all([1, 2, 3].map(() => factory({ ...largeModel(), ...largeSizes })));
    const alone = (await third.forward({ canonical: promptBatch(200) })).canonical!.logits.slice();
    const answers = await Promise.all(
      [first, second].map((backend) => backend.forward({ canonical: promptBatch(200) })),
    );
    for (const { canonical } of answers) expectEqualBits(canonical!.logits, alone, 'at once');
    await Promise.all([first, second, third].map((backend) => backend.close()));
    expect(liveBytes()).toBe(0);
  });

  it('replaces the arrays of a result that its reader transferred away', async () => {
    const backend = await createCpuBackend()({ plan: model.plan, weights: model.weights, ...sizes });
    const once = (await backend.forward({ canonical: smallPrompt(20, 1) })).canonical!;
    const logits = once.logits.slice();
    structuredClone(0, {
      transfer: [once.logits, once.argmax, once.argmaxLogit, once.runnerUpLogit].map(
        ({ buffer }) => buffer as ArrayBuffer,
      ),
    });
    const again = (await backend.forward({ canonical: smallPrompt(20, 1) })).canonical!;
    expectEqualBits(again.logits, logits, 'after a transfer');
    await backend.close();
  });

  it.each([1, 3])('stops loading when the signal is aborted at weight %i, and frees everything', async (stopAt) => {
    const controller = new AbortController();
    let reads = 0;
    const weights: WeightSource = {
      read(spec) {
        if (++reads < stopAt) return model.weights.read(spec);
        // A source that never answers.
        setTimeout(() => controller.abort(new Error('given up')), 5);
        return new Promise(() => {});
      },
    };
    const load = createCpuBackend()({ plan: model.plan, weights, ...sizes, signal: controller.signal });
    await expect(load).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(liveBytes()).toBe(0);
  });

  it('passes on the error of a weight source, and frees everything', async () => {
    const weights: WeightSource = { read: () => Promise.reject(new Error('the disk is gone')) };
    await expect(createCpuBackend()({ plan: model.plan, weights, ...sizes })).rejects.toThrow('the disk is gone');
    expect(liveBytes()).toBe(0);
  });

  it('says so when the memory that was asked for does not exist', async () => {
    const blockCount = 2 ** 31 - 1;
    const load = createCpuBackend()({
      plan: model.plan,
      weights: model.weights,
      blockSize: 8192,
      blockCount,
      maxRows: 64,
    });
    await expect(load).rejects.toMatchObject({ code: 'STET_ERR_OUT_OF_MEMORY' });
    expect(liveBytes()).toBe(0);
  });

  it.each<[string, CpuOptions, string]>([
    ['no threads', { threads: 0 }, 'threads is 0'],
    ['half a thread', { threads: 1.5 }, 'threads is 1.5'],
    ['too many threads', { threads: 1000 }, 'threads is 1000'],
    ['an unknown instruction set', { isa: 'sse' as 'avx2' }, 'isa is "sse"'],
  ])('refuses %s', async (_, options, message) => {
    const load = createCpuBackend(options)({ plan: model.plan, weights: model.weights, ...sizes });
    await expect(load).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining(message),
    });
  });

  it('refuses more rows than its sections can count', async () => {
    const load = createCpuBackend()({ plan: model.plan, weights: model.weights, ...sizes, maxRows: MAX_ROWS + 1 });
    await expect(load).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
  });

  it('refuses heads wider than its kernels take', async () => {
    const wide = buildModel({ ...wideHeads, headSize: MAX_HEAD_SIZE + 32 });
    await expect(createCpuBackend()({ ...wide, ...sizes })).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
    const widest = await createCpuBackend()({ ...buildModel({ ...wideHeads, headSize: MAX_HEAD_SIZE }), ...sizes });
    await widest.close();
  });

  it('names the CPU feature that a forced instruction set lacks', () => {
    const features = cpuFeatures();
    if (!features.available) throw new Error('unreachable: the suite is skipped without the addon');
    for (const isa of features.isas) {
      if (isa.available) {
        expect(createCpuOpRunner({ isa: isa.name }).isa).toBe(isa.name);
      } else {
        expect(isa.reason).not.toBe('');
        expect(() => createCpuOpRunner({ isa: isa.name })).toThrow(isa.reason);
      }
    }
    expect(features.chosen).toBe(isas.at(-1));
  });

  it('burns no processor time between steps', async () => {
    const backend = await createCpuBackend({ threads: 4 })({ plan: model.plan, weights: model.weights, ...sizes });
    await backend.forward({ canonical: smallPrompt(20, 1) });
    const before = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, 500));
    const { user, system } = process.cpuUsage(before);
    await backend.close();
    // One spinning thread would take all 500 ms.
    expect((user + system) / 1000).toBeLessThan(150);
  });

  it('keeps the event loop free during long steps', async () => {
    const backend = await createCpuBackend()({ ...largeModel(), ...largeSizes });
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const until = performance.now() + 1500;
    let steps = 0;
    while (performance.now() < until) {
      await backend.forward({ fast: promptBatch(512), canonical: promptBatch(512, 33) });
      steps++;
    }
    delay.disable();
    await backend.close();
    const max = delay.max / 1e6;
    const p99 = delay.percentile(99) / 1e6;
    console.info(
      `event loop delay over ${steps} steps of 1024 rows: p99 ${p99.toFixed(1)} ms, max ${max.toFixed(1)} ms`,
    );
    expect(max).toBeLessThan(200);
  });
});

/** As promptBatch, for the small model's vocabulary. */
function smallPrompt(rowCount: number, first: number) {
  const batch = promptBatch(rowCount, first);
  return { ...batch, tokens: batch.tokens.map((token) => token % model.plan.vocabSize) };
}
