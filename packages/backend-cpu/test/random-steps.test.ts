import type { Backend, BackendInfo, BatchResult, Step } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { createReferenceBackend } from '@stet/reference';
import { describe, expect, it } from 'vitest';
import { createCpuBackend } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';
import { Random } from './support/random.js';
import { type RandomModel, randomModel } from './support/random-model.js';
import { Traffic } from './support/traffic.js';

const blockSize = 16;
const blockCount = 61;
const maxRows = 100;

/** Different kernels, so a tolerance: the error of a row of logits, relative to the row. bf16 inputs err by 0.2 % a product. */
const FAST_TOLERANCE = 0.05;

if (withoutAddon !== undefined) it.skip(`random models and batches are not tested here (${withoutAddon})`, () => {});

describe.each(isas)('%s on random models and batches', (isa) => {
  it('gives the bits of the reference for canonical batches, and for fast ones or stays close as it says', {
    timeout: 300_000,
  }, async () => {
    let stepCount = 0;
    for (let seed = 1; stepCount < 100; seed++) {
      const random = new Random(seed);
      const model = randomModel(seed * 7919);
      const cpu = await load(createCpuBackend({ isa, threads: 1 + (seed % 4) }), model);
      const reference = await load(createReferenceBackend, model);
      const traffic = trafficOf(random, model);
      for (let i = 0; i < 5; i++, stepCount++) {
        const step = randomStep(random, traffic);
        compare(await cpu.forward(step), await reference.forward(step), step, cpu.info, `model ${seed}, step ${i}`);
      }
      await cpu.close();
      await reference.close();
    }
  });

  it('gives the same canonical bits for any number of threads, with and without a fast batch beside it', async () => {
    for (let seed = 100; seed < 106; seed++) {
      const model = randomModel(seed);
      const backends = await Promise.all(
        [1, 2, 3, 4, 7].map((threads) => load(createCpuBackend({ isa, threads }), model)),
      );
      const traffic = trafficOf(new Random(seed), model);
      for (let i = 0; i < 4; i++) {
        const step = { fast: traffic.fast.next(), canonical: traffic.canonical.next() };
        const [first, ...others] = backends;
        const alone = copyOf((await first.forward({ canonical: step.canonical })).canonical!);
        for (const [index, backend] of others.entries()) {
          const { canonical } = await backend.forward(step);
          expectEqualResults(canonical!, alone, `model ${seed}, step ${i}, backend ${index}`);
        }
      }
      await Promise.all(backends.map((backend) => backend.close()));
    }
  });
});

function load(factory: ReturnType<typeof createCpuBackend>, { plan, weights }: RandomModel): Promise<Backend> {
  return factory({ plan, weights, blockSize, blockCount, maxRows });
}

function trafficOf(random: Random, { plan }: RandomModel): { fast: Traffic; canonical: Traffic } {
  const limits = { vocabSize: plan.vocabSize, contextLength: plan.contextLength, blockSize, maxRows };
  const ids = random.shuffle(Array.from({ length: blockCount - 1 }, (_, i) => i + 1));
  return {
    fast: new Traffic(random, ids.slice(0, blockCount / 2), limits),
    canonical: new Traffic(random, ids.slice(blockCount / 2), limits),
  };
}

function randomStep(random: Random, traffic: { fast: Traffic; canonical: Traffic }): Step {
  const kind = random.pick(['fast', 'canonical', 'both', 'both'] as const);
  return {
    ...(kind !== 'canonical' ? { fast: traffic.fast.next() } : {}),
    ...(kind !== 'fast' ? { canonical: traffic.canonical.next() } : {}),
  };
}

function compare(
  got: { fast?: BatchResult; canonical?: BatchResult },
  want: { fast?: BatchResult; canonical?: BatchResult },
  step: Step,
  { fast, vocabSize }: BackendInfo,
  where: string,
): void {
  expect(Object.keys(got).sort()).toEqual(Object.keys(step).sort());
  if (got.canonical && want.canonical) expectEqualResults(got.canonical, want.canonical, where);
  if (!got.fast || !want.fast) return;
  if (fast === 'canonical') expectEqualResults(got.fast, want.fast, `${where}, fast`);
  else expectClose(got.fast.logits, want.fast.logits, vocabSize, where);
}

function expectEqualResults(got: BatchResult, want: BatchResult, where: string): void {
  expect([...got.argmax], `${where}: arg-max`).toEqual([...want.argmax]);
  expectEqualBits(got.argmaxLogit, want.argmaxLogit, `${where}: logit of the arg-max`);
  expectEqualBits(got.runnerUpLogit, want.runnerUpLogit, `${where}: runner-up logit`);
  expectEqualBits(got.logits, want.logits, `${where}: logits`);
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
    expect(Math.sqrt(error / size), `${where}: error of the fast logits of output ${row / vocabSize}`).toBeLessThan(
      FAST_TOLERANCE,
    );
  }
}

function copyOf(result: BatchResult): BatchResult {
  return {
    argmax: result.argmax.slice(),
    argmaxLogit: result.argmaxLogit.slice(),
    runnerUpLogit: result.runnerUpLogit.slice(),
    logits: result.logits.slice(),
  };
}
