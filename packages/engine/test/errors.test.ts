import { StetError } from '@stet/backend';
import { createFakeBackend, fakeLoad } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { createEngine, type GenerateRequest } from '../src/index.js';
import { fakeEngine, readAll, toyFacts, until } from './helpers.js';

const OK = { promptTokens: [1, 2, 3], maxTokens: 20, ignoreEos: true } as const;

/** Requests with one fault each, and what the message must name. */
const refused: [fault: Record<string, unknown>, named: RegExp][] = [
  [{ temprature: 1 }, /unknown parameter "temprature"/],
  [{ max_tokens: 5 }, /unknown parameter "max_tokens"/],
  [JSON.parse('{"__proto__": 1}') as Record<string, unknown>, /unknown parameter "__proto__"/],
  [{ toString: 1 }, /unknown parameter "toString"/],
  [{ prompt: 'and a text' }, /exactly one of prompt, promptTokens and messages, not 2/],
  [{ promptTokens: undefined }, /exactly one .* not 0/],
  [{ promptTokens: undefined, prompt: '' }, /the prompt has no tokens/],
  [{ promptTokens: undefined, prompt: 7 }, /prompt must be a string/],
  [{ promptTokens: undefined, prompt: 'a\uD800' }, /prompt has a lone surrogate/],
  [{ promptTokens: [] }, /promptTokens must be a non-empty array/],
  [{ promptTokens: 'abc' }, /promptTokens must be/],
  [{ promptTokens: [1, 257] }, /promptTokens\[1\] must be a token id in 0\.\.256/],
  [{ promptTokens: [1.5] }, /promptTokens\[0\]/],
  [{ promptTokens: [-1] }, /promptTokens\[0\]/],
  [{ promptTokens: undefined, messages: [] }, /messages has 0 entries/],
  [{ promptTokens: undefined, messages: [{ role: 'user' }] }, /messages\[0\]\.content must be a string/],
  [{ promptTokens: undefined, messages: [{ role: '', content: 'x' }] }, /messages\[0\]\.role/],
  [{ promptTokens: undefined, messages: [{ role: 'u', content: 'x', tool: 1 }] }, /"messages\[0\]\.tool"/],
  [{ maxTokens: 0 }, /maxTokens must be an integer in 1\.\./],
  [{ maxTokens: -3 }, /maxTokens/],
  [{ maxTokens: 1.5 }, /maxTokens/],
  [{ maxTokens: null }, /maxTokens .* not null/],
  [{ deterministic: 1 }, /deterministic must be true or false/],
  [{ seed: -1 }, /seed/],
  [{ seed: 2 ** 53 }, /seed/],
  [{ temperature: Number.NaN }, /temperature/],
  [{ temperature: Number.POSITIVE_INFINITY }, /temperature/],
  [{ temperature: -0.1 }, /temperature/],
  [{ temperature: 1e-5 }, /temperature/],
  [{ topK: -1 }, /topK/],
  [{ topP: 0 }, /topP must be a number above 0/],
  [{ topP: 1.1 }, /topP/],
  [{ minP: 1.1 }, /minP/],
  [{ frequencyPenalty: 2.1 }, /frequencyPenalty/],
  [{ presencePenalty: -2.1 }, /presencePenalty/],
  [{ repetitionPenalty: 0 }, /repetitionPenalty must be a number in 0\.1\.\.10/],
  [{ repetitionPenalty: 10.1 }, /repetitionPenalty/],
  [{ logitBias: { 257: 1 } }, /logitBias has the key "257"/],
  [{ logitBias: { '01': 1 } }, /logitBias has the key "01"/],
  [{ logitBias: { 1: 101 } }, /logitBias\.1/],
  [{ logitBias: Object.fromEntries(Array.from({ length: 1025 }, (_, i) => [i, 1])) }, /logitBias has 1025 entries/],
  [{ logitBias: [1] }, /logitBias must be an object/],
  [{ stop: '' }, /stop has 0 characters/],
  [{ stop: Array(9).fill('x') }, /stop has 9 entries, allowed are 0 to 8/],
  [{ stop: ['a'.repeat(257)] }, /stop\[0\] has 257 characters/],
  [{ stop: ['\uDC00'] }, /stop\[0\] has a lone surrogate/],
  [{ logprobs: 21 }, /logprobs/],
  [{ logprobs: true }, /logprobs/],
  [{ provisional: 'yes' }, /provisional/],
  [{ priority: 101 }, /priority/],
  [{ ignoreEos: 'no' }, /ignoreEos/],
];

describe('a bad request', () => {
  it.each(refused)('is refused by a message that names the field: %j', async (fault, named) => {
    await using fake = await fakeEngine();
    const request = { ...OK, ...fault, ...(Object.hasOwn(fault, '__proto__') && fault) };
    const given = Object.hasOwn(fault, '__proto__') ? fault : request;
    const stream = fake.engine.generate(given as unknown as GenerateRequest);
    const error = await stream.next().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StetError);
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_REQUEST', message: expect.stringMatching(named) });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    expect(fake.backend.stepCount).toBe(0);
  });

  it('is refused when it is no object', async () => {
    await using fake = await fakeEngine();
    for (const request of [undefined, null, 'text', 7, []]) {
      const stream = fake.engine.generate(request as unknown as GenerateRequest);
      await expect(stream.next()).rejects.toMatchObject({ code: 'STET_ERR_BAD_REQUEST' });
    }
  });

  it('at its limits is accepted', async () => {
    await using fake = await fakeEngine();
    const request: GenerateRequest = {
      ...{ promptTokens: [0, 256], maxTokens: 254, seed: 2 ** 53 - 1, temperature: 100, topK: 2 ** 31 - 1, topP: 1 },
      ...{ minP: 1, frequencyPenalty: 2, presencePenalty: -2, repetitionPenalty: 0.1, logprobs: 20, priority: -100 },
      ignoreEos: true,
      logitBias: Object.fromEntries(Array.from({ length: 257 }, (_, i) => [i, i % 2 ? 100 : -100])),
      stop: Array.from({ length: 8 }, () => '\u0000'.repeat(256)),
    };
    expect((await readAll(fake.engine.generate(request))).done.usage.totalTokens).toBe(256);
  });

  it('that does not fit in the context is refused', async () => {
    await using fake = await fakeEngine();
    const fits = Array.from({ length: 255 }, () => 1);
    expect((await readAll(fake.engine.generate({ promptTokens: fits }))).tokens.length).toBe(1);
    const endless = { prompt: 'a'.repeat(256 * 64 + 1) };
    for (const request of [{ promptTokens: [...fits, 1] }, { promptTokens: fits, maxTokens: 2 }, endless]) {
      await expect(readAll(fake.engine.generate(request))).rejects.toMatchObject({ code: 'STET_ERR_CONTEXT_LENGTH' });
    }
  });

  it('that needs more blocks than there are is refused', async () => {
    await using fake = await fakeEngine({ engine: { kv: { blockCount: 2 } } });
    const refusal = { code: 'STET_ERR_KV_CAPACITY' };
    await expect(readAll(fake.engine.generate({ ...OK, maxTokens: 60 }))).rejects.toMatchObject(refusal);
    expect((await readAll(fake.engine.generate(OK))).tokens.length).toBe(20);
  });

  it('past the length of the queue is refused, and those before it are served', async () => {
    await using fake = await fakeEngine({ engine: { limits: { maxWaiting: 3, maxRunning: 1 } } });
    const answers = [1, 2, 3].map(() => readAll(fake.engine.generate(OK)));
    await expect(readAll(fake.engine.generate(OK))).rejects.toMatchObject({ code: 'STET_ERR_QUEUE_FULL' });
    for (const answer of await Promise.all(answers)) expect(answer.tokens.length).toBe(20);
  });

  it('for determinism is refused where the backend has no canonical schedule', async () => {
    const create = createFakeBackend();
    const load = fakeLoad();
    const model = await toyModel(load);
    await using engine = await createEngine({
      model,
      backend: async (given) => {
        const backend = await create(given);
        const info = { ...backend.info, canonical: 'none' as const, numerics: null };
        return { info, forward: (step) => backend.forward(step), close: () => backend.close() };
      },
    });
    await expect(readAll(engine.generate({ ...OK, deterministic: true }))).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining('fake'),
    });
    expect((await readAll(engine.generate(OK))).tokens.length).toBe(20);
  });
});

describe('a backend that fails', () => {
  it('fails the requests of that step after what they had committed, and the engine goes on', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.1 });
    const streams = [true, false].map((deterministic) =>
      fake.engine.generate({ ...OK, maxTokens: 200, deterministic, logprobs: 1 }),
    );
    await until(() => fake.engine.stats().committedTokens > 20, 'something is committed');
    fake.backend.failNext(new StetError('STET_ERR_OUT_OF_MEMORY', 'no memory'));
    for (const stream of streams) {
      let tokens = 0;
      const read = async () => {
        for await (const event of stream) if (event.type === 'commit') tokens += event.tokens.length;
      };
      await expect(read()).rejects.toMatchObject({ code: 'STET_ERR_OUT_OF_MEMORY' });
      expect(tokens).toBeGreaterThan(0);
      expect(await stream.next()).toEqual({ done: true, value: undefined });
    }
    expect(fake.engine.stats().blocks.held).toBe(0);
    expect((await readAll(fake.engine.generate(OK))).tokens.length).toBe(20);
  });

  it('with an error that is not ours is reported as a failed backend, with its cause', async () => {
    await using fake = await fakeEngine();
    const cause = new TypeError('driver says no');
    fake.backend.failNext(cause);
    await expect(readAll(fake.engine.generate(OK))).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_FAILED', cause });
  });

  it('to give a result ends every request and every later one, since the scheduler has lost the step', async () => {
    const create = createFakeBackend();
    await using engine = await createEngine({
      model: await toyModel(fakeLoad()),
      backend: async (given) => {
        const backend = await create(given);
        let steps = 0;
        const forward: typeof backend.forward = async (step) => (++steps > 5 ? {} : backend.forward(step));
        return { info: backend.info, forward, close: () => backend.close() };
      },
    });
    const failure = { code: 'STET_ERR_BACKEND_FAILED', message: expect.stringContaining('gave no result') };
    const answers = await Promise.allSettled([1, 2].map(() => readAll(engine.generate(OK))));
    for (const answer of answers) expect(answer).toMatchObject({ status: 'rejected', reason: failure });
    await expect(readAll(engine.generate(OK))).rejects.toMatchObject(failure);
  });

  it('to be created leaves nothing open', async () => {
    let closed = 0;
    const model = await toyModel(fakeLoad(), () => closed++);
    const refusal = new StetError('STET_ERR_OUT_OF_MEMORY', 'too big');
    await expect(createEngine({ model, backend: () => Promise.reject(refusal) })).rejects.toBe(refusal);
    expect(closed).toBe(1);
    const create = createFakeBackend();
    const broken = { model: await toyModel(fakeLoad(), () => closed++), backend: create };
    await expect(createEngine({ ...broken, kv: { blockCount: 0 } })).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
    });
    expect(closed).toBe(2);
    expect(create.liveBytes()).toBe(0);
    const missing = Promise.reject(new StetError('STET_ERR_MODEL_NOT_FOUND', 'nowhere'));
    await expect(createEngine({ model: missing, backend: create })).rejects.toMatchObject({
      code: 'STET_ERR_MODEL_NOT_FOUND',
    });
  });
});

describe('a closed engine', () => {
  it('has ended every request with the reason, freed everything and takes no more', async () => {
    const fake = await fakeEngine();
    const { engine, backend } = fake;
    const waiting = readAll(engine.generate({ ...OK, maxTokens: 200 })).catch((error: unknown) => error);
    const unread = engine.generate({ ...OK, maxTokens: 200 });
    await until(() => engine.stats().committedTokens > 3, 'it runs');
    backend.hold();
    await until(() => backend.inFlight, 'a step is in flight');
    const closing = engine.close();
    backend.release();
    await closing;
    await engine.close();
    expect(await waiting).toMatchObject({ code: 'STET_ERR_ENGINE_CLOSED' });
    await expect(unread.next()).rejects.toMatchObject({ code: 'STET_ERR_ENGINE_CLOSED' });
    await expect(readAll(engine.generate(OK))).rejects.toMatchObject({ code: 'STET_ERR_ENGINE_CLOSED' });
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
    expect(fake.closedModels()).toBe(1);
    await expect(backend.forward({})).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_CLOSED' });
  });
});

async function toyModel(load: ReturnType<typeof fakeLoad>, onClose: () => void = () => {}) {
  return {
    ...toyFacts,
    ...{ name: 'toy', architecture: 'fake', plan: load.plan, weights: load.weights, eosIds: [] },
    ...{ contextLength: load.plan.contextLength, generationDefaults: {}, digest: '0'.repeat(64) },
    close: async () => onClose(),
  };
}
