import { type BackendInfo, type Draw, StetError, type TokenSampler } from '@stet/backend';
import { createFakeBackend, fakeLoad } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { batchOf, forward } from '../../src/conformance/drive.js';
import { composeBackends } from '../../src/index.js';
import { composeFakes } from './compose-fakes.js';

const load = fakeLoad();
const ROW = [{ tokens: [1], position: 0, blocks: [1] }];
const OTHER_ROW = [{ tokens: [1], position: 0, blocks: [2] }];
const CANONICAL_SHAPE = { sequenceCount: 2, windowTokens: 4 };

describe('loading a composed backend', () => {
  it('says what both parts are', async () => {
    const { backend, fast, canonical } = await composeFakes();
    const { memory, ...info } = backend.info;
    expect(info).toEqual({
      name: 'fake+fake',
      device: 'fast: integer hashing; canonical: integer hashing',
      numerics: 'stet-1',
      canonical: 'portable',
      fast: 'free',
      vocabSize: 32,
      contextLength: 64,
      blockSize: 4,
      blockCount: 40,
      maxRows: 16,
    });
    expect(memory.weightBytes).toBe(fast.info.memory.weightBytes + canonical.info.memory.weightBytes);
    expect(memory.kvBytes).toBe(fast.info.memory.kvBytes + canonical.info.memory.kvBytes);
    expect(memory.scratchBytes).toBe(40 * 4 * 21 + 40 * 8);
  });

  it('counts the weights of both parts once, in whole numbers', async () => {
    const calls: number[][] = [];
    await composeBackends({ fast: createFakeBackend(), canonical: createFakeBackend() })({
      ...load,
      onProgress: (...call) => calls.push(call),
    });
    expect(calls).toEqual([
      [1, 2],
      [2, 2],
    ]);
  });

  it('counts them also where the parts report nothing', async () => {
    const calls: number[][] = [];
    const silent = ({ onProgress: _, ...rest }: typeof load) => createFakeBackend()(rest);
    await composeBackends({ fast: silent, canonical: silent })({
      ...load,
      onProgress: (...call) => calls.push(call),
    });
    expect(calls).toEqual([
      [1, 2],
      [2, 2],
    ]);
  });

  it.each(['fast', 'canonical'] as const)('closes the other part where the %s one fails', async (failing) => {
    const create = createFakeBackend();
    const error = new StetError('STET_ERR_OUT_OF_MEMORY', 'no');
    const parts = { fast: create, canonical: create, [failing]: () => Promise.reject(error) };
    await expect(composeBackends(parts)(load)).rejects.toBe(error);
    expect(create.liveBytes()).toBe(0);
  });

  it.each([
    ['has no canonical schedule', { canonical: 'none', numerics: null }],
    ['has another block size', { blockSize: 32 }],
    ['takes fewer rows', { maxRows: 8 }],
  ] as [string, Partial<BackendInfo>][])('is refused where the canonical part %s', async (_, changes) => {
    const create = createFakeBackend();
    const changed = async (given: typeof load) => {
      const backend = await create(given);
      return { ...withMethods(backend), info: { ...backend.info, ...changes } };
    };
    await expect(composeBackends({ fast: create, canonical: changed })(load)).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
    });
    expect(create.liveBytes()).toBe(0);
  });

  it('passes a fixed shape on, whose scratch windows nobody feeds', async () => {
    const { backend, fast } = await composeFakes({}, { canonical: { canonicalShape: CANONICAL_SHAPE } });
    expect(backend.info).toMatchObject({ canonical: 'fixed-shape', canonicalShape: CANONICAL_SHAPE });
    const window = { tokens: [1, 2, 0, 0], position: 0, blocks: [1] };
    const scratch = { tokens: [0, 0, 0, 0], position: 0, blocks: [0] };
    await forward(backend, { canonical: [window, scratch] });
    await forward(backend, { fast: [{ tokens: [5], position: 2, blocks: [1] }] });
    expect(fast.log.map((step) => step.fast!.sequences)).toEqual([[{ position: 0, tokens: [1, 2, 5], blocks: [1] }]]);
    await expect(forward(backend, { canonical: [window] })).rejects.toMatchObject({ code: 'STET_ERR_BAD_BATCH' });
  });
});

function withMethods(backend: { forward: unknown; close: unknown }) {
  const { forward: run, close } = backend as Awaited<ReturnType<ReturnType<typeof createFakeBackend>>>;
  return { forward: run.bind(backend), close: close.bind(backend) };
}

describe('a step on a composed backend', () => {
  it('runs both batches at the same time, each on its part', async () => {
    const { backend, fast, canonical } = await composeFakes();
    fast.hold();
    canonical.hold();
    const step = forward(backend, { fast: ROW, canonical: OTHER_ROW });
    expect([fast.inFlight, canonical.inFlight]).toEqual([true, true]);
    fast.release();
    canonical.release();
    const { fast: fastAnswers, canonical: canonicalAnswers } = await step;
    expect([fastAnswers.length, canonicalAnswers.length]).toEqual([1, 1]);
    expect(fast.log.map((log) => Object.keys(log))).toEqual([['fast']]);
    expect(canonical.log.map((log) => Object.keys(log))).toEqual([['canonical']]);
  });

  it.each([
    ['fast', 'canonical'],
    ['canonical', 'fast'],
  ] as const)('of which the %s part fails rejects after the other has ended', async (failing, other) => {
    const fakes = await composeFakes();
    const error = new StetError('STET_ERR_DEVICE_LOST', 'gone');
    fakes[failing].failNext(error);
    fakes[other].hold();
    let settled = false;
    const step = forward(fakes.backend, { fast: ROW, canonical: OTHER_ROW }).finally(() => {
      settled = true;
    });
    const rejection = expect(step).rejects.toBe(error);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(settled).toBe(false);
    await expect(forward(fakes.backend, { fast: ROW })).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_BUSY' });
    fakes[other].release();
    await rejection;
    await forward(fakes.backend, { fast: ROW, canonical: OTHER_ROW });
  });

  it.each([
    ['the canonical part', 'STET_ERR_BACKEND_FAILED', 'STET_ERR_BACKEND_FAILED', 'canonical'],
    ['the part whose device is lost', 'STET_ERR_DEVICE_LOST', 'STET_ERR_BACKEND_FAILED', 'fast'],
    ['the canonical part, if both are lost', 'STET_ERR_DEVICE_LOST', 'STET_ERR_DEVICE_LOST', 'canonical'],
  ] as const)('rejects with the error of %s where both fail', async (_, fastCode, canonicalCode, which) => {
    const { backend, fast, canonical } = await composeFakes();
    const errors = { fast: new StetError(fastCode, 'one'), canonical: new StetError(canonicalCode, 'other') };
    fast.failNext(errors.fast);
    canonical.failNext(errors.canonical);
    await expect(forward(backend, { fast: ROW, canonical: OTHER_ROW })).rejects.toBe(errors[which]);
  });
});

describe('the sampler of a composed backend', () => {
  const samplerOf = (token: number, answer?: Promise<void>): TokenSampler => ({
    sample: (draws) => {
      const drawn = draws.map(() => ({ token }));
      return answer ? answer.then(() => drawn) : drawn;
    },
  });
  const part = (sampler?: TokenSampler) => async (given: typeof load) => {
    const backend = await createFakeBackend()(given);
    return { ...withMethods(backend), info: backend.info, ...(sampler && { sampler }) };
  };
  const draw: Draw = {
    logits: new Float32Array(64),
    params: { temperature: 1, topK: 0, topP: 1, minP: 0 },
    seed: 1,
    outputIndex: 0,
  };

  it.each([
    ['the canonical part’s', samplerOf(1), samplerOf(2), 2],
    ['the fast part’s where the canonical one has none', samplerOf(1), undefined, 1],
  ] as const)('is %s', async (_, fast, canonical, token) => {
    const backend = await composeBackends({ fast: part(fast), canonical: part(canonical) })(load);
    expect(await backend.sampler?.sample([draw, draw])).toEqual([{ token }, { token }]);
  });

  it('is absent where no part has one', async () => {
    const { backend } = await composeFakes();
    expect(backend.sampler).toBeUndefined();
  });

  it('keeps steps out and close waiting until it has answered', async () => {
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const backend = await composeBackends({ fast: part(), canonical: part(samplerOf(3, answered)) })(load);
    const drawn = backend.sampler!.sample([draw]);
    const canonical = batchOf(ROW);
    await expect(backend.forward({ canonical })).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_BUSY' });
    expect(() => backend.sampler!.sample([draw])).toThrow(expect.objectContaining({ code: 'STET_ERR_BACKEND_BUSY' }));
    let closed = false;
    const closing = backend.close().then(() => {
      closed = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(closed).toBe(false);
    answer();
    expect(await drawn).toEqual([{ token: 3 }]);
    await closing;
    expect(() => backend.sampler!.sample([draw])).toThrow(expect.objectContaining({ code: 'STET_ERR_BACKEND_CLOSED' }));
  });
});
