import { type Backend, OUTPUT_ARGMAX, type Plan, StetError, type WeightSource } from '@stet/backend';
import { modelVectors } from '@stet/backend/self-test';
import { createReferenceBackend } from '@stet/reference';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { batchOf, type SequencePart } from './support.js';

const [shared, odd] = modelVectors();
const open: Backend[] = [];

async function load(model: { plan: Plan; weights: WeightSource }, blockCount = 24): Promise<Backend> {
  const backend = await createReferenceBackend({ ...model, blockSize: 16, blockCount, maxRows: 96 });
  open.push(backend);
  return backend;
}

afterEach(async () => {
  for (const backend of open.splice(0)) await backend.close();
});

const tokens = [...shared.tokens];

/** Logits of tokens 0 .. length - 1 fed in the given chunks. */
async function feed(backend: Backend, ids: readonly number[], chunks: readonly number[], blocks: readonly number[]) {
  const rows: Float32Array[] = [];
  for (let start = 0, i = 0; start < ids.length; i++) {
    const end = Math.min(ids.length, start + chunks[i % chunks.length]);
    const canonical = batchOf([{ tokens: ids.slice(start, end), start, blocks }]);
    rows.push((await backend.forward({ canonical })).canonical!.logits);
    start = end;
  }
  return Float32Array.from(rows.flatMap((part) => [...part]));
}

describe('the reference backend', () => {
  it('says what it is', async () => {
    const { info } = await load(odd);
    expect(info).toMatchObject({ name: 'reference', numerics: 'stet-1', canonical: 'portable', fast: 'canonical' });
    // 24 blocks of 16 positions, 2 layers, one K/V head of 48 padded to 64: K and V in two planes and two exponents.
    expect(info.memory.kvBytes).toBe(24 * 16 * 2 * 2 * (2 * 64 + 2));
    expect(info.memory.weightBytes).toBeGreaterThan(0);
    expect(info.memory.scratchBytes).toBeGreaterThan(0);
  });

  it('gives the same bits for any chunking, in any blocks', async () => {
    const ids = tokens.slice(0, 80);
    const backend = await load(shared);
    const whole = await feed(backend, ids, [80], [1, 2, 3, 4, 5]);
    const chunking = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 6 });
    const table = fc.shuffledSubarray(
      [...Array(18).keys()].map((i) => i + 6),
      { minLength: 5, maxLength: 5 },
    );
    await fc.assert(
      fc.asyncProperty(chunking, table, async (chunks, blocks) => {
        expect(await feed(backend, ids, chunks, blocks)).toEqual(whole);
      }),
      { numRuns: 10 },
    );
  });

  it('gives a row the same bits alone, in a crowd and in another order', async () => {
    const backend = await load(odd);
    const parts: SequencePart[] = [5, 1, 20, 17].map((length, s) => ({
      tokens: [...odd.tokens.slice(s * 7, s * 7 + length)],
      start: 0,
      blocks: [2 * s + 1, 2 * s + 2],
    }));
    const alone: Float32Array[] = [];
    for (const part of parts) alone.push((await backend.forward({ canonical: batchOf([part]) })).canonical!.logits);
    for (const order of [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
      [2, 0],
    ]) {
      const { canonical } = await backend.forward({ canonical: batchOf(order.map((s) => parts[s])) });
      expect(canonical!.logits).toEqual(Float32Array.from(order.flatMap((s) => [...alone[s]])));
    }
  });

  it('runs the fast batch of a step with the same numerics, next to the canonical one', async () => {
    const backend = await load(shared);
    const first: SequencePart = { tokens: tokens.slice(0, 18), start: 0, blocks: [3, 1] };
    const second: SequencePart = { tokens: tokens.slice(30, 41), start: 0, blocks: [9] };
    const alone = await backend.forward({ canonical: batchOf([first]) });
    const other = await backend.forward({ canonical: batchOf([second]) });
    const both = await backend.forward({ fast: batchOf([first]), canonical: batchOf([second]) });
    expect(both.fast).toEqual(alone.canonical);
    expect(both.canonical).toEqual(other.canonical);
  });

  it('gives the arg-max of rows that want no logits, the lowest id among equals', async () => {
    const backend = await load(shared);
    const batch = batchOf([{ tokens: tokens.slice(0, 9), start: 0, blocks: [1] }]);
    const full = (await backend.forward({ canonical: batch })).canonical!;
    const canonical = { ...batch, outputRows: Int32Array.of(2, 8), outputKinds: Uint8Array.of(OUTPUT_ARGMAX, 1) };
    const result = (await backend.forward({ canonical })).canonical!;
    expect([...result.argmax]).toEqual([full.argmax[2], full.argmax[8]]);
    expect([...result.argmaxLogit]).toEqual([full.argmaxLogit[2], full.argmaxLogit[8]]);
    expect([...result.runnerUpLogit]).toEqual([full.runnerUpLogit[2], full.runnerUpLogit[8]]);
    expect(result.runnerUpLogit[1]).toBe(result.logits.toSorted().at(-2));
    expect(result.logits).toEqual(full.logits.subarray(8 * shared.plan.vocabSize));
    expect(result.logits.indexOf(result.argmaxLogit[1])).toBe(result.argmax[1]);
  });

  it('overwrites K/V that a longer sequence left behind', async () => {
    const backend = await load(shared);
    const clean = await feed(backend, tokens.slice(0, 20), [20], [1, 2]);
    await feed(backend, tokens.slice(50, 110), [60], [4, 5, 6, 7]);
    expect(await feed(backend, tokens.slice(0, 20), [20], [6, 4])).toEqual(clean);
  });

  it('refuses a second step while one is in flight, and finishes the first', async () => {
    const backend = await load(shared);
    const step = { canonical: batchOf([{ tokens: tokens.slice(0, 16), start: 0, blocks: [1] }]) };
    const first = backend.forward(step);
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_BUSY' });
    expect((await first).canonical!.argmax).toHaveLength(16);
    await expect(backend.forward(step)).resolves.toBeDefined();
  });

  it('refuses a bad step before anything is written', async () => {
    const backend = await load(shared);
    const good = { tokens: tokens.slice(0, 16), start: 0, blocks: [1] };
    const before = await feed(backend, good.tokens, [16], [1, 2]);
    const bad = batchOf([{ tokens: [shared.plan.vocabSize, 1, 2], start: 0, blocks: [1] }]);
    await expect(backend.forward({ canonical: bad })).rejects.toMatchObject({ code: 'STET_ERR_BAD_BATCH' });
    const both = { fast: batchOf([good]), canonical: bad };
    await expect(backend.forward(both)).rejects.toMatchObject({ code: 'STET_ERR_BAD_BATCH' });
    const next = batchOf([{ tokens: [7], start: 16, blocks: [1, 2] }]);
    const after = (await backend.forward({ canonical: next })).canonical!.logits;
    const fresh = await feed(backend, [...good.tokens, 7], [17], [3, 4]);
    expect(fresh).toEqual(Float32Array.of(...before, ...after));
  });

  it('waits for the step in flight when it closes, and is closed from then on', async () => {
    const backend = await load(shared);
    const step = { canonical: batchOf([{ tokens: tokens.slice(0, 16), start: 0, blocks: [1] }]) };
    const order: string[] = [];
    const running = backend.forward(step).then(() => order.push('step'));
    await backend.close().then(() => order.push('close'));
    await running;
    expect(order).toEqual(['step', 'close']);
    await backend.close();
    await expect(backend.forward(step)).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_CLOSED' });
  });

  it('lets timers run while it computes', async () => {
    const backend = await load(shared);
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    // Enough rows that the pass takes some tens of milliseconds on any machine.
    for (let i = 0; i < 4; i++) await feed(backend, tokens.slice(0, 96), [96], [1, 2, 3, 4, 5, 6]);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(1);
  });

  it('reports its progress and stops loading when it is told to', async () => {
    const steps: number[] = [];
    const controller = new AbortController();
    const onProgress = (done: number): void => {
      steps.push(done);
      if (done === 3) controller.abort();
    };
    const sizes = { blockSize: 16, blockCount: 4, maxRows: 4 };
    const loading = createReferenceBackend({ ...shared, ...sizes, onProgress, signal: controller.signal });
    await expect(loading).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(steps).toEqual([1, 2, 3]);
  });

  it('refuses sizes, plans and weights that do not fit', async () => {
    const sizes = { blockSize: 16, blockCount: 4, maxRows: 4 };
    const code = async (change: object): Promise<string> => {
      const error = await createReferenceBackend({ ...shared, ...sizes, ...change }).catch((e: unknown) => e);
      return error instanceof StetError ? error.code : 'none';
    };
    expect(await code({ blockSize: 24 })).toBe('STET_ERR_UNSUPPORTED');
    expect(await code({ blockCount: 1 })).toBe('STET_ERR_UNSUPPORTED');
    expect(await code({ maxRows: 0 })).toBe('STET_ERR_UNSUPPORTED');
    expect(await code({ plan: { ...shared.plan, ops: [] } })).toBe('STET_ERR_BAD_PLAN');
    const short: WeightSource = { read: async () => ({ kind: 'bf16', bits: new Uint16Array(3) }) };
    expect(await code({ weights: short })).toBe('STET_ERR_BAD_WEIGHTS');
    const other: WeightSource = { read: async () => ({ kind: 'vector', values: new Float32Array(3) }) };
    expect(await code({ weights: other })).toBe('STET_ERR_BAD_WEIGHTS');
  });
});
