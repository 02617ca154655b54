import { type Batch, OUTPUT_ARGMAX, OUTPUT_LOGITS, StetError } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import {
  createFakeBackend,
  type FakeBackend,
  fakeContinuation,
  fakeLoad,
  fakeLogits,
  type Schedule,
} from '../src/index.js';

/** Rows of one sequence; the last one wants its logits, the others their arg-max. */
function rows(tokens: number[], position: number, blocks: number[]): Batch {
  return {
    tokens: Int32Array.from(tokens),
    positions: Int32Array.from(tokens, (_, i) => position + i),
    rowStarts: Int32Array.of(0, tokens.length),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.from(blocks),
    outputRows: Int32Array.from(tokens, (_, i) => i),
    outputKinds: Uint8Array.from(tokens, (_, i) => (i === tokens.length - 1 ? OUTPUT_LOGITS : OUTPUT_ARGMAX)),
  };
}

async function greedy(backend: FakeBackend, prompt: number[], count: number, blocks: number[], schedule: Schedule) {
  const output: number[] = [];
  let feed = prompt;
  let position = 0;
  while (output.length < count) {
    const result = (await backend.forward({ [schedule]: rows(feed, position, blocks) }))[schedule]!;
    position += feed.length;
    feed = [result.argmax.at(-1)!];
    output.push(feed[0]!);
  }
  return output;
}

const prompt = [5, 9, 2, 40, 17];
const blocks = [7, 3, 9, 1];

describe('FakeBackend', () => {
  it('continues a prompt as the oracle says, over any blocks', async () => {
    const backend = await createFakeBackend()(fakeLoad());
    const expected = fakeContinuation(prompt, 40);
    expect(new Set(expected).size).toBeGreaterThan(10);
    expect(await greedy(backend, prompt, 40, blocks, 'canonical')).toEqual(expected);
    expect(await greedy(backend, prompt, 40, [2, 4, 6], 'canonical')).toEqual(expected);
  });

  it('gives the logits of the oracle', async () => {
    const backend = await createFakeBackend({ seed: 3 })(fakeLoad({ vocabSize: 50 }));
    const { canonical } = await backend.forward({ canonical: rows(prompt, 0, blocks) });
    expect(canonical!.logits).toEqual(fakeLogits(prompt, { seed: 3, vocabSize: 50 }));
    const [largest, runnerUp] = [...canonical!.logits].sort((a, b) => b - a);
    expect(canonical!.logits[canonical!.argmax.at(-1)!]).toBe(largest);
    expect(canonical!.argmaxLogit.at(-1)).toBe(largest);
    expect(canonical!.runnerUpLogit.at(-1)).toBe(runnerUp);
  });

  it('samples through the oracle with the context so far', () => {
    const seen: number[][] = [];
    const output = fakeContinuation(prompt, 3, (_, index, context) => {
      seen.push([index, context.length]);
      return 60 + index;
    });
    expect(output).toEqual([60, 61, 62]);
    expect(seen).toEqual([
      [0, 5],
      [1, 6],
      [2, 7],
    ]);
  });

  it('spreads logits with near ties and exact ties', () => {
    let near = 0;
    let exact = 0;
    for (let i = 0; i < 2000; i++) {
      const [top, second] = [...fakeLogits([i % 64, i >> 6])].sort((a, b) => b - a);
      if (top === second) exact++;
      else if (top! - second! < 0.1) near++;
    }
    expect(exact).toBeGreaterThan(4);
    expect(near).toBeGreaterThan(40);
    expect(near + exact).toBeLessThan(400);
  });

  it('fast rows agree with canonical ones at mismatch rate 0, but their K/V does not serve canonical rows', async () => {
    const backend = await createFakeBackend()(fakeLoad());
    const expected = fakeContinuation(prompt, 30);
    expect(backend.info.fast).toBe('free');
    expect(await greedy(backend, prompt, 30, blocks, 'fast')).toEqual(expected);
    const stale = await backend.forward({ canonical: rows([expected[9]!], prompt.length + 9, blocks) });
    expect(stale.canonical!.logits).not.toEqual(fakeLogits([...prompt, ...expected.slice(0, 10)]));
    await backend.forward({ canonical: rows([...prompt, ...expected.slice(0, 9)], 0, blocks) });
    const repaired = await backend.forward({ canonical: rows([expected[9]!], prompt.length + 9, blocks) });
    expect(repaired.canonical!.logits).toEqual(fakeLogits([...prompt, ...expected.slice(0, 10)]));
  });

  it('claims that fast is canonical only where it is', async () => {
    const same = await createFakeBackend({ fastKvDeviates: false })(fakeLoad());
    expect(same.info.fast).toBe('canonical');
    await greedy(same, prompt, 10, blocks, 'fast');
    const expected = fakeContinuation(prompt, 12);
    const after = await greedy(same, prompt, 10, blocks, 'fast');
    const next = await same.forward({ canonical: rows([after[9]!], prompt.length + 9, blocks) });
    expect(next.canonical!.argmax[0]).toBe(expected[10]);
  });

  it.each([0.01, 0.5, 1])('injects mismatches at rate %s and counts them', async (mismatchRate) => {
    const backend = await createFakeBackend({ mismatchRate })(fakeLoad({ maxRows: 64 }));
    let differences = 0;
    for (let i = 0; i < 100; i++) {
      const tokens = Array.from({ length: 40 }, (_, k) => (i * 7 + k * k) % 64);
      const fast = await backend.forward({ fast: rows(tokens, 0, blocks) });
      const fastArgmax = Array.from(fast.fast!.argmax);
      const canonical = await backend.forward({ canonical: rows(tokens, 0, blocks) });
      differences += fastArgmax.filter((token, row) => token !== canonical.canonical!.argmax[row]).length;
    }
    expect(backend.injectedMismatches).toBe(differences);
    expect(differences).toBeGreaterThan(4000 * mismatchRate * 0.5);
    expect(differences).toBeLessThan(4000 * mismatchRate * 1.5 + 1);
  });

  it('gives a flipped row the runner-up of its flipped logits, which is the canonical arg-max', async () => {
    const backend = await createFakeBackend({ mismatchRate: 1 })(fakeLoad());
    const { fast } = await backend.forward({ fast: rows(prompt, 0, blocks) });
    const flipped = { ...fast!, runnerUpLogit: fast!.runnerUpLogit.slice(), argmaxLogit: fast!.argmaxLogit.slice() };
    const { canonical } = await backend.forward({ canonical: rows(prompt, 0, blocks) });
    expect(flipped.runnerUpLogit).toEqual(canonical!.argmaxLogit);
    expect(flipped.argmaxLogit).toEqual(canonical!.argmaxLogit.map((logit) => logit + 1 / 64));
  });

  it('draws the mismatch of a row again when the batch has another shape', async () => {
    const backend = await createFakeBackend({ mismatchRate: 0.5 })(fakeLoad());
    const argmaxOf = async (length: number) => {
      const { fast } = await backend.forward({ fast: rows(prompt.slice(0, length), 0, blocks) });
      return Array.from(fast!.argmax);
    };
    const whole = await argmaxOf(5);
    expect(await argmaxOf(5)).toEqual(whole);
    const shapes: number[][] = [];
    for (const length of [1, 2, 3, 4]) shapes.push(await argmaxOf(length));
    expect(shapes.some((argmax) => argmax.some((token, row) => token !== whole[row]))).toBe(true);
  });

  it('follows a script that forces tokens, by schedule', async () => {
    const script = (context: readonly number[], schedule: Schedule) =>
      context.length === 7 ? (schedule === 'fast' ? 1 : 2) : undefined;
    const backend = await createFakeBackend({ script })(fakeLoad());
    expect((await greedy(backend, prompt, 3, blocks, 'fast'))[2]).toBe(1);
    const canonical = await greedy(backend, prompt, 6, blocks, 'canonical');
    expect(canonical[2]).toBe(2);
    expect(canonical).toEqual(fakeContinuation(prompt, 6, undefined, { script }));
  });

  it('changes its answers after the blocks of a sequence are poisoned', async () => {
    const backend = await createFakeBackend()(fakeLoad());
    await backend.forward({ canonical: rows(prompt, 0, blocks) });
    backend.poison([7]);
    const { canonical } = await backend.forward({ canonical: rows([1], 5, blocks) });
    expect(canonical!.logits).not.toEqual(fakeLogits([...prompt, 1]));
  });

  it('fails once with the error it was given and leaves garbage where it was to write', async () => {
    const backend = await createFakeBackend()(fakeLoad());
    await backend.forward({ canonical: rows(prompt, 0, blocks) });
    const error = new StetError('STET_ERR_BACKEND_FAILED', 'no device');
    backend.failNext(error);
    await expect(backend.forward({ canonical: rows([1], 5, blocks) })).rejects.toBe(error);
    const { canonical } = await backend.forward({ canonical: rows([1], 5, blocks) });
    expect(canonical!.logits).not.toEqual(fakeLogits([...prompt, 1]));
  });

  it('holds a step until it is released, is busy meanwhile, and closes only after it', async () => {
    const factory = createFakeBackend();
    const backend = await factory(fakeLoad());
    backend.hold();
    let settled = false;
    const call = backend.forward({ canonical: rows(prompt, 0, blocks) }).finally(() => {
      settled = true;
    });
    await expect(backend.forward({ canonical: rows(prompt, 0, blocks) })).rejects.toMatchObject({
      code: 'STET_ERR_BACKEND_BUSY',
    });
    let isClosed = false;
    const closing = backend.close().then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect([settled, isClosed, backend.inFlight]).toEqual([false, false, true]);
    expect(factory.liveBytes()).toBeGreaterThan(0);
    backend.release();
    await call;
    await closing;
    expect(factory.liveBytes()).toBe(0);
    await expect(backend.forward({ canonical: rows(prompt, 0, blocks) })).rejects.toMatchObject({
      code: 'STET_ERR_BACKEND_CLOSED',
    });
  });

  it('notices a batch that changes while it is in flight', async () => {
    const backend = await createFakeBackend()(fakeLoad());
    const batch = rows(prompt, 0, blocks);
    backend.hold();
    const call = backend.forward({ canonical: batch });
    batch.tokens[0] = 1;
    backend.release();
    await expect(call).rejects.toThrow('do not change');
  });

  it('overwrites the arrays of a result at the next call', async () => {
    const backend = await createFakeBackend()(fakeLoad());
    const { canonical } = await backend.forward({ canonical: rows(prompt, 0, blocks) });
    await backend.forward({ canonical: rows([1], 5, blocks) });
    expect(canonical!.argmax[0]).toBe(-1);
  });

  it('logs its steps by schedule', async () => {
    const backend = await createFakeBackend({ mismatchRate: 1, logSteps: 2 })(fakeLoad());
    await backend.forward({ fast: rows(prompt, 0, blocks) });
    await backend.forward({ fast: rows(prompt, 0, blocks), canonical: rows([1, 2], 0, [5]) });
    await backend.forward({ canonical: rows([3], 2, [5]) });
    expect(backend.stepCount).toBe(3);
    expect(backend.log).toEqual([
      {
        fast: {
          rowCount: 5,
          sequences: [{ position: 0, tokens: prompt, blocks: [7] }],
          outputRows: [0, 1, 2, 3, 4],
          injectedRows: [0, 1, 2, 3, 4],
        },
        canonical: {
          rowCount: 2,
          sequences: [{ position: 0, tokens: [1, 2], blocks: [5] }],
          outputRows: [0, 1],
          injectedRows: [],
        },
      },
      {
        canonical: {
          rowCount: 1,
          sequences: [{ position: 2, tokens: [3], blocks: [5] }],
          outputRows: [0],
          injectedRows: [],
        },
      },
    ]);
  });
});
