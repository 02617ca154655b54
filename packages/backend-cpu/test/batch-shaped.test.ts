import { type Backend, type BackendLoad, type Batch, type BatchResult, OUTPUT_LOGITS } from '@stet/backend';
import { expectEqualBits } from '@stet/backend/conformance';
import { createReferenceBackend } from '@stet/reference';
import { loadFloat64 } from '@stet/reference/float64';
import { describe, expect, it } from 'vitest';
import { requireAddon } from '../src/addon.js';
import { type CpuOptions, createCpuBackend, liveBytes } from '../src/index.js';
import { kernelsNumber } from '../src/options.js';
import { packingId } from '../src/packed/packing.js';
import { largeModel } from './support/long-step.js';
import { isas, withoutAddon } from './support/machine.js';
import { Random } from './support/random.js';
import { randomModel } from './support/random-model.js';
import { Traffic } from './support/traffic.js';

const blockSize = 16;
const blockCount = 61;
const maxRows = 200;
/** Four chunks of attention, so that there is something to split. */
const promptLength = 200;
const nextToken = 5;
const promptBlocks = Int32Array.from({ length: Math.ceil((promptLength + 1) / blockSize) }, (_, i) => 1 + i);

if (withoutAddon !== undefined) it.skip(`the batch-shaped study mode is not tested here (${withoutAddon})`, () => {});

describe.skipIf(withoutAddon)('the batch-shaped study mode', () => {
  it('names itself on the device, and the native mode does not', async () => {
    const studied = await load(largeModel(), {});
    const native = await load(largeModel(), { fast: 'native' });
    expect(studied.info.device).toMatch(/, batch-shaped study mode$/);
    expect(native.info.device).not.toContain('study');
    await Promise.all([studied.close(), native.close()]);
    expect(liveBytes()).toBe(0);
  });

  it('refuses modes that it does not know', async () => {
    // @ts-expect-error: what a caller without types may pass.
    const options: CpuOptions = { fast: 'noisy' };
    await expect(load(largeModel(), options)).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: 'fast is "noisy", expected native or batch-shaped',
    });
  });

  it('is free where the native fast schedule is the canonical one', async () => {
    for (let seed = 1; ; seed++) {
      const model = randomModel(seed);
      if (model.plan.weights.some((spec) => spec.kind === 'matrix' && spec.format === 'bf16')) continue;
      const studied = await load(model, {});
      const native = await load(model, { fast: 'native' });
      expect([studied.info.fast, native.info.fast]).toEqual(['free', 'canonical']);
      await Promise.all([studied.close(), native.close()]);
      return;
    }
  });

  it('gives the same bits for equal batches, on every instruction set, by any number of threads, beside any other batch', async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const model = randomModel(seed * 7919);
      const backends = await Promise.all(
        isas.flatMap((isa) => [1, 3].map((threads) => load(model, { isa, threads, selfTest: false }))),
      );
      const traffic = trafficOf(seed, model);
      for (let i = 0; i < 4; i++) {
        const step = { fast: traffic.fast.next(), canonical: traffic.canonical.next() };
        const [first, ...others] = backends;
        const alone = copyOf((await first.forward({ fast: step.fast })).fast!);
        for (const [index, backend] of others.entries()) {
          const { fast } = await backend.forward(index % 2 ? step : { fast: step.fast });
          const where = `model ${seed}, step ${i}, backend ${index}`;
          expect([...fast!.argmax], where).toEqual([...alone.argmax]);
          expectEqualBits(fast!.argmaxLogit, alone.argmaxLogit, where);
          expectEqualBits(fast!.logits, alone.logits, where);
        }
      }
      await Promise.all(backends.map((backend) => backend.close()));
    }
  });

  it('gives the bits of the reference for canonical batches, beside fast ones', async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const model = randomModel(seed * 104729);
      const studied = await load(model, { threads: 2 });
      const reference = await createReferenceBackend({ ...model, blockSize, blockCount, maxRows });
      const traffic = trafficOf(seed, model);
      for (let i = 0; i < 4; i++) {
        const step = { fast: traffic.fast.next(), canonical: traffic.canonical.next() };
        const { canonical } = await studied.forward(step);
        const expected = (await reference.forward({ canonical: step.canonical })).canonical!;
        expect([...canonical!.argmax]).toEqual([...expected.argmax]);
        expectEqualBits(canonical!.logits, expected.logits, `model ${seed}, step ${i}`);
      }
      await Promise.all([studied.close(), reference.close()]);
    }
  });

  it('gives a row other bits in company of other size, where the canonical schedule does not', async () => {
    const model = largeModel();
    const studied = await load(model, {});
    for (const schedule of ['fast', 'canonical'] as const) {
      await studied.forward({ [schedule]: promptBatch() });
      const alone = copyOf((await studied.forward({ [schedule]: decodeBatch(1) }))[schedule]!).logits;
      await studied.forward({ [schedule]: promptBatch() });
      const beside = copyOf((await studied.forward({ [schedule]: decodeBatch(20) }))[schedule]!).logits;
      const differing = alone.filter((logit, i) => logit !== beside[i]).length;
      if (schedule === 'canonical') expect(differing).toBe(0);
      else expect(differing).toBeGreaterThan(alone.length / 10);
    }
    await studied.close();
  });

  it('is as near to an f64 forward as bf16 activations are, in company of any size', async () => {
    const model = largeModel();
    const { vocabSize } = model.plan;
    const tokens = promptBatch().tokens;
    const truth = (await loadFloat64(model.plan, model.weights)).logits([...tokens, nextToken]).subarray(-vocabSize);
    const studied = await load(model, {});
    for (const rowCount of [1, 6, 20, 40]) {
      await studied.forward({ fast: promptBatch() });
      const { logits } = (await studied.forward({ fast: decodeBatch(rowCount) })).fast!;
      expect(relativeError(truth, logits.subarray(0, vocabSize)), `${rowCount} rows`).toBeLessThan(0.02);
    }
    await studied.close();
  });

  it('shares files of packed weights where matrices lie alike, and has its own where they do not', () => {
    const addon = requireAddon();
    for (const isa of isas) {
      const [native, studied] = (['native', 'batch-shaped'] as const).map((fast) =>
        (['bf16', 'q8', 'q4'] as const).map((format) => packingId(addon, kernelsNumber(isa, fast), [format])),
      );
      expect(studied[0]).toBe(native[0]);
      expect(studied[1]).not.toBe(native[1]);
      expect(studied[2]).not.toBe(native[2]);
    }
  });
});

function load(model: Pick<BackendLoad, 'plan' | 'weights'>, options: CpuOptions): Promise<Backend> {
  const { plan, weights } = model;
  return createCpuBackend({ fast: 'batch-shaped', ...options })({ plan, weights, blockSize, blockCount, maxRows });
}

function trafficOf(seed: number, { plan }: Pick<BackendLoad, 'plan'>): { fast: Traffic; canonical: Traffic } {
  const random = new Random(seed);
  const limits = { vocabSize: plan.vocabSize, contextLength: plan.contextLength, blockSize, maxRows: 100 };
  const ids = random.shuffle(Array.from({ length: 60 }, (_, i) => i + 1));
  return { fast: new Traffic(random, ids.slice(0, 30), limits), canonical: new Traffic(random, ids.slice(30), limits) };
}

function promptBatch(): Batch {
  return {
    tokens: Int32Array.from({ length: promptLength }, (_, row) => (row * 37) % 1024),
    positions: Int32Array.from({ length: promptLength }, (_, row) => row),
    rowStarts: Int32Array.of(0, promptLength),
    blockStarts: Int32Array.of(0),
    blocks: promptBlocks,
    outputRows: Int32Array.of(promptLength - 1),
    outputKinds: Uint8Array.of(OUTPUT_LOGITS),
  };
}

/** The token after the prompt, which wants logits, and `rowCount` - 1 other sequences of one token each. */
function decodeBatch(rowCount: number): Batch {
  const others = Array.from({ length: rowCount - 1 }, (_, i) => i);
  return {
    tokens: Int32Array.of(nextToken, ...others),
    positions: Int32Array.of(promptLength, ...others.map(() => 0)),
    rowStarts: Int32Array.from({ length: rowCount + 1 }, (_, s) => s),
    blockStarts: Int32Array.of(0, ...others.map((i) => promptBlocks.length + i)),
    blocks: Int32Array.of(...promptBlocks, ...others.map((i) => promptBlocks.length + 1 + i)),
    outputRows: Int32Array.of(0),
    outputKinds: Uint8Array.of(OUTPUT_LOGITS),
  };
}

function relativeError(truth: ArrayLike<number>, logits: Float32Array): number {
  let error = 0;
  let size = 0;
  for (const [i, logit] of logits.entries()) {
    error += (logit - truth[i]) ** 2;
    size += truth[i] ** 2;
  }
  return Math.sqrt(error / size);
}

function copyOf(result: BatchResult): BatchResult {
  return {
    argmax: result.argmax.slice(),
    argmaxLogit: result.argmaxLogit.slice(),
    runnerUpLogit: result.runnerUpLogit.slice(),
    logits: result.logits.slice(),
  };
}
