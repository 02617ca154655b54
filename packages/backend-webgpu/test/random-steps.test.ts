import type { Backend, BatchResult, Step } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import { Random } from '../../backend-cpu/test/support/random.js';
import { type RandomModel, randomModel } from '../../backend-cpu/test/support/random-model.js';
import { Traffic } from '../../backend-cpu/test/support/traffic.js';
import { loadOn } from '../src/backend.js';
import { withoutGpu } from './support/gpu.js';
import { sharedDevice } from './support/shared-device.js';

const sizes = { blockSize: 16, blockCount: 61, maxRows: 60 };
const MODELS = 8;
const STEPS = 3;

/** Different kernels, so a tolerance: the error of a row of logits, relative to the row. */
const FAST_TOLERANCE = 0.05;

if (withoutGpu !== undefined) it.skip(`random models and batches are not tested here (${withoutGpu})`, () => {});

describe.skipIf(withoutGpu)('the WebGPU backend on random models and batches', () => {
  const gpu = sharedDevice();

  it('gives the bits of the reference for canonical batches and stays close for fast ones', {
    timeout: 600_000,
  }, async () => {
    for (let seed = 1; seed <= MODELS; seed++) {
      const random = new Random(seed);
      const model = randomModel(seed * 7919);
      const load = { plan: model.plan, weights: model.weights, ...sizes };
      // A few outputs a slice, so that most batches have several.
      const webgpu = await loadOn(gpu(), load, () => {}, {
        logitsBytes: random.between(1, 9) * model.plan.vocabSize * 4,
      });
      const reference = await createReferenceBackend(load);
      const traffic = trafficOf(random, model);
      for (let i = 0; i < STEPS; i++) {
        const step = randomStep(random, traffic);
        compare(await webgpu.forward(step), await reference.forward(step), step, model, `model ${seed}, step ${i}`);
      }
      await webgpu.close();
      await reference.close();
    }
  });
});

function trafficOf(random: Random, { plan }: RandomModel): { fast: Traffic; canonical: Traffic } {
  const limits = { vocabSize: plan.vocabSize, contextLength: plan.contextLength, ...sizes };
  const ids = random.shuffle(Array.from({ length: sizes.blockCount - 1 }, (_, i) => i + 1));
  return {
    fast: new Traffic(random, ids.slice(0, sizes.blockCount / 2), limits),
    canonical: new Traffic(random, ids.slice(sizes.blockCount / 2), limits),
  };
}

function randomStep(random: Random, traffic: { fast: Traffic; canonical: Traffic }): Step {
  const kind = random.pick(['fast', 'canonical', 'both', 'both'] as const);
  return {
    ...(kind !== 'canonical' ? { fast: traffic.fast.next() } : {}),
    ...(kind !== 'fast' ? { canonical: traffic.canonical.next() } : {}),
  };
}

type Results = Awaited<ReturnType<Backend['forward']>>;

function compare(got: Results, want: Results, step: Step, { plan }: RandomModel, where: string): void {
  expect(Object.keys(got).sort()).toEqual(Object.keys(step).sort());
  if (got.canonical && want.canonical) expectEqualResults(got.canonical, want.canonical, where);
  if (got.fast && want.fast) expectClose(got.fast.logits, want.fast.logits, plan.vocabSize, where);
}

function expectEqualResults(got: BatchResult, want: BatchResult, where: string): void {
  expectEqualBits(got.logits, want.logits, `${where}: logits`);
  expect([...got.argmax], `${where}: arg-max`).toEqual([...want.argmax]);
  expectEqualBits(got.argmaxLogit, want.argmaxLogit, `${where}: logit of the arg-max`);
  expectEqualBits(got.runnerUpLogit, want.runnerUpLogit, `${where}: runner-up logit`);
}

function expectClose(got: Float32Array, want: Float32Array, vocabSize: number, where: string): void {
  expect(got.length, where).toBe(want.length);
  for (let row = 0; row < got.length; row += vocabSize) {
    let error = 0;
    let size = 0;
    for (let i = row; i < row + vocabSize; i++) {
      error += (got[i] - want[i]) ** 2;
      size += want[i] ** 2;
    }
    const relative = Math.sqrt(error / size);
    expect(relative, `${where}: error of the fast logits of output ${row / vocabSize}`).toBeLessThan(FAST_TOLERANCE);
  }
}
