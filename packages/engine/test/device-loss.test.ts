import { type Backend, type BackendInfo, type Step, StetError } from '@stet/backend';
import { PortableSampler } from '@stet/scheduler';
import { describe, expect, it } from 'vitest';
import type { CreateEngineOptions, GenerateRequest } from '../src/index.js';
import {
  type FakeEngine,
  type FakeEngineOptions,
  fakeEngine,
  logprobBits,
  type ReadAnswer,
  readAll,
  until,
} from './helpers.js';

const PROMPT = Array.from({ length: 40 }, (_, i) => (i * 11) % 256);
const REQUEST = {
  ...{ promptTokens: PROMPT, deterministic: true, seed: 5, temperature: 0.9, frequencyPenalty: 0.2, logprobs: 2 },
  ...{ maxTokens: 40, ignoreEos: true },
} as const satisfies GenerateRequest;
const REQUESTS: readonly GenerateRequest[] = [
  REQUEST,
  { ...REQUEST, promptTokens: [9, 8, 7], temperature: 0, provisional: true },
  { ...REQUEST, promptTokens: PROMPT.slice(0, 20), deterministic: false },
];
const FAKE = { mismatchRate: 0.2 };
/** Many steps of prefill, and no wait between tries. */
const ENGINE = { limits: { maxRows: 16, recreationWaitMs: 1 } } as const satisfies FakeEngineOptions['engine'];
const LOST = { code: 'STET_ERR_DEVICE_LOST' } as const;

const lostError = () => new StetError('STET_ERR_DEVICE_LOST', 'the device fell off');

/** Backend number `creation` loses its device at its forward number `lossAt(creation)`, counted from 0, and never finds it again. */
function losing(
  lossAt: (creation: number) => number,
  place: 'forward' | 'sampler' = 'forward',
  onLoss: (step: Step) => void = () => {},
) {
  return (backend: Backend, creation: number): Backend => {
    const portable = new PortableSampler(backend.info.vocabSize);
    let forwards = 0;
    const isLost = () => forwards > lossAt(creation);
    return {
      info: backend.info,
      ...(place === 'sampler' && {
        sampler: { sample: async (draws) => (isLost() ? Promise.reject(lostError()) : portable.sample(draws)) },
      }),
      forward: async (step) => {
        forwards++;
        if (isLost()) onLoss(step);
        if (place === 'forward' && isLost()) throw lostError();
        return backend.forward(step);
      },
      close: () => backend.close(),
    };
  };
}

const once = (at: number) => (creation: number) => (creation === 0 ? at : Number.POSITIVE_INFINITY);

function bitsOf({ tokens, text, hash, done, ...rest }: ReadAnswer): string {
  return JSON.stringify([tokens, text, hash, done.receipt, logprobBits({ tokens, text, hash, done, ...rest })]);
}

async function answersOf({ engine }: FakeEngine): Promise<ReadAnswer[]> {
  return Promise.all(REQUESTS.map((request) => readAll(engine.generate(request))));
}

async function undisturbed(): Promise<string[]> {
  await using fake = await fakeEngine({ ...FAKE, engine: ENGINE });
  return (await answersOf(fake)).slice(0, 2).map(bitsOf);
}

/** Nothing is open, nothing held, and one backend of those that were made is left. */
function expectClean(fake: FakeEngine): void {
  const { running, waiting, blocks } = fake.engine.stats();
  expect({ running, waiting, held: blocks.held }).toEqual({ running: 0, waiting: 0, held: 0 });
  const { kvBytes } = fake.backend.info.memory;
  expect(fake.liveBytes()).toBe(kvBytes);
  expect(fake.closedModels()).toBe(0);
}

describe('an engine whose device is lost', () => {
  it.each(['forward', 'sampler'] as const)('goes on with the same bits, whichever step it was: %s', async (place) => {
    const expected = await undisturbed();
    const kinds = new Set<string>();
    for (let at = 0; at < 30; at++) {
      const onLoss = ({ fast, canonical }: Step) => {
        const isPrefill = canonical?.positions.includes(PROMPT.length - 1) || canonical?.positions.includes(0);
        kinds.add(`${fast ? 'fast' : ''} ${isPrefill ? 'prefill' : canonical ? 'verify' : ''}`.trim());
      };
      await using fake = await fakeEngine({ ...FAKE, engine: ENGINE, wrap: losing(once(at), place, onLoss) });
      const first = fake.backend;
      const answers = await answersOf(fake);
      expect(answers.slice(0, 2).map(bitsOf)).toEqual(expected);
      expect(answers[2]!.tokens).toHaveLength(40);
      for (const { events } of answers) expect(events.filter(({ type }) => type === 'accepted')).toHaveLength(1);
      const { recreations, preemptions } = fake.engine.stats();
      expect([recreations, fake.creations()]).toEqual([1, 2]);
      expect(preemptions).toBeGreaterThan(0);
      expectClean(fake);
      await expect(first.forward({})).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_CLOSED' });
    }
    expect([...kinds]).toEqual(expect.arrayContaining(['fast', 'fast prefill', 'fast verify']));
  });

  it('goes on when it is lost again, as often as it commits something between', async () => {
    const expected = await undisturbed();
    await using fake = await fakeEngine({ ...FAKE, engine: ENGINE, wrap: losing(() => 8) });
    const answers = await answersOf(fake);
    expect(answers.slice(0, 2).map(bitsOf)).toEqual(expected);
    expect(fake.engine.stats().recreations).toBeGreaterThan(5);
    expectClean(fake);
  });

  it('goes on when new backends lose it at once, up to the limit', async () => {
    const expected = await undisturbed();
    const wrap = losing((creation) => [20, 0, 0][creation] ?? Number.POSITIVE_INFINITY);
    await using fake = await fakeEngine({ ...FAKE, engine: ENGINE, wrap });
    expect((await answersOf(fake)).slice(0, 2).map(bitsOf)).toEqual(expected);
    expect(fake.engine.stats().recreations).toBe(3);
    expectClean(fake);
  });

  it('goes on when the first new backends cannot be made', async () => {
    const expected = await undisturbed();
    await using fake = await fakeEngine({
      ...{ ...FAKE, engine: ENGINE, wrap: losing((creation) => (creation === 0 ? 12 : Number.POSITIVE_INFINITY)) },
      beforeCreate: (creation) => {
        if (creation === 1) throw new StetError('STET_ERR_BACKEND_UNAVAILABLE', 'no adapter yet');
        if (creation === 2) throw new TypeError('the driver is still asleep');
      },
    });
    expect((await answersOf(fake)).slice(0, 2).map(bitsOf)).toEqual(expected);
    expect([fake.engine.stats().recreations, fake.creations()]).toEqual([1, 4]);
    expectClean(fake);
  });

  it('withdraws the candidates that it has shown', async () => {
    await using fake = await fakeEngine({ ...FAKE, engine: ENGINE, wrap: losing(once(14)) });
    const shown: number[] = [];
    let withdrawn = 0;
    const request = { ...REQUEST, promptTokens: [9, 8, 7], provisional: true, logprobs: 0 } as const;
    for await (const event of fake.engine.generate(request)) {
      if (event.type === 'provisional') shown.push(...event.tokens);
      if (event.type === 'commit') shown.splice(0, event.tokens.length);
      if (event.type === 'rollback') withdrawn += shown.splice(0).length;
    }
    expect(fake.engine.stats().recreations).toBe(1);
    expect(withdrawn).toBeGreaterThan(0);
    expect(shown).toEqual([]);
  });

  it('is described by the device that it has now', async () => {
    const wrap = (backend: Backend, creation: number): Backend => ({
      ...losing(once(3))(backend, creation),
      info: { ...backend.info, device: `device ${creation}` },
    });
    await using fake = await fakeEngine({ engine: ENGINE, wrap });
    const { info } = fake.engine;
    await readAll(fake.engine.generate(REQUEST));
    expect(fake.engine.info).toEqual({ ...info, device: 'device 1' });
  });

  it('does not care for the signal and the progress of its creation any more', async () => {
    const controller = new AbortController();
    let calls = 0;
    const engine = { ...ENGINE, signal: controller.signal, onProgress: () => calls++ };
    await using fake = await fakeEngine({ engine, wrap: losing(once(3)) });
    const before = calls;
    controller.abort();
    expect((await readAll(fake.engine.generate(REQUEST))).tokens).toHaveLength(40);
    expect([fake.engine.stats().recreations, calls]).toEqual([1, before]);
  });
});

describe('while a backend is made anew', () => {
  /** An engine that has lost its device and makes another, which comes when the gate opens. */
  async function waiting(obeys: 'signal' | 'nothing' = 'signal') {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const fake = await fakeEngine({
      ...{ ...FAKE, engine: ENGINE, wrap: losing(once(6)) },
      beforeCreate: async (creation, { signal }) => {
        if (creation === 0) return;
        if (obeys === 'nothing') return gate;
        const aborted = new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(new StetError('STET_ERR_ABORTED', 'aborted')));
        });
        await Promise.race([gate, aborted]);
      },
    });
    return { fake, open };
  }
  const isWaiting = (fake: FakeEngine) => until(() => fake.creations() === 2, 'another backend is asked for');

  it('requests that come wait, and are answered', async () => {
    const expected = await undisturbed();
    const { fake, open } = await waiting();
    const first = readAll(fake.engine.generate(REQUESTS[0]!));
    await isWaiting(fake);
    const second = readAll(fake.engine.generate(REQUESTS[1]!));
    expect(fake.engine.stats()).toMatchObject({ running: 0, waiting: 2, recreations: 0, blocks: { held: 0 } });
    open();
    expect([bitsOf(await first), bitsOf(await second)]).toEqual(expected);
    expectClean(fake);
    await fake.engine.close();
  });

  it('requests can be aborted', async () => {
    const { fake, open } = await waiting();
    const controller = new AbortController();
    const gone = readAll(fake.engine.generate(REQUEST, { signal: controller.signal }));
    const lost = expect(gone).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    await isWaiting(fake);
    controller.abort();
    await lost;
    expect(fake.engine.stats()).toMatchObject({ running: 0, waiting: 0 });
    open();
    expect((await readAll(fake.engine.generate(REQUEST))).tokens).toHaveLength(40);
    expectClean(fake);
    await fake.engine.close();
  });

  it.each(['signal', 'nothing'] as const)('the engine can be closed, whether creation minds %s', async (obeys) => {
    const { fake, open } = await waiting(obeys);
    const failed = expect(readAll(fake.engine.generate(REQUEST))).rejects.toMatchObject({
      code: 'STET_ERR_ENGINE_CLOSED',
    });
    await isWaiting(fake);
    const closing = fake.engine.close();
    if (obeys === 'nothing') open();
    await closing;
    await failed;
    expect([fake.liveBytes(), fake.closedModels(), fake.creations()]).toEqual([0, 1, 2]);
    await expect(readAll(fake.engine.generate(REQUEST))).rejects.toMatchObject({ code: 'STET_ERR_ENGINE_CLOSED' });
  });

  it('the engine can be closed in the wait between two tries', async () => {
    const fake = await fakeEngine({
      ...{ engine: { limits: { recreationWaitMs: 3_600_000 } }, wrap: losing(once(4)) },
      beforeCreate: (creation) => {
        if (creation > 0) throw new StetError('STET_ERR_BACKEND_UNAVAILABLE', 'no adapter');
      },
    });
    const failed = expect(readAll(fake.engine.generate(REQUEST))).rejects.toMatchObject({
      code: 'STET_ERR_ENGINE_CLOSED',
    });
    await isWaiting(fake);
    await fake.engine.close();
    await failed;
    expect([fake.liveBytes(), fake.closedModels(), fake.creations()]).toEqual([0, 1, 2]);
  });

  it('the engine can be closed as the device is lost', async () => {
    const fake = await fakeEngine({ ...FAKE, engine: ENGINE });
    const failed = expect(readAll(fake.engine.generate(REQUEST))).rejects.toMatchObject({
      code: 'STET_ERR_ENGINE_CLOSED',
    });
    fake.backend.hold();
    fake.backend.failNext(lostError());
    await until(() => fake.backend.inFlight, 'a step is in flight');
    const closing = fake.engine.close();
    fake.backend.release();
    await closing;
    await failed;
    expect([fake.liveBytes(), fake.closedModels(), fake.creations()]).toEqual([0, 1, 1]);
  });
});

describe('a device that is lost for good', () => {
  /** Reads until it throws: how many tokens came before, and what was thrown. */
  async function readToError(stream: AsyncIterable<{ type: string; tokens?: readonly number[] }>) {
    let tokens = 0;
    try {
      for await (const event of stream) if (event.type === 'commit') tokens += event.tokens!.length;
    } catch (error) {
      return { tokens, error };
    }
    throw new Error('the stream ended without an error');
  }

  async function expectGone(fake: FakeEngine, message: RegExp): Promise<void> {
    const refused = await readToError(fake.engine.generate(REQUEST));
    expect(refused).toMatchObject({ tokens: 0, error: { ...LOST, message: expect.stringMatching(message) } });
    const { running, waiting, blocks } = fake.engine.stats();
    expect([running, waiting, blocks.held, fake.liveBytes(), fake.closedModels()]).toEqual([0, 0, 0, 0, 0]);
    await fake.engine.close();
    expect(fake.closedModels()).toBe(1);
  }

  it('ends every request with what it had committed, and refuses later ones, with the reason', async () => {
    const wrap = losing((creation) => (creation === 0 ? 30 : 0));
    const fake = await fakeEngine({ ...FAKE, engine: ENGINE, wrap });
    const streams = REQUESTS.map((request) => fake.engine.generate(request));
    for (const read of await Promise.all(streams.map(readToError))) {
      expect(read).toMatchObject({ error: LOST });
      expect(read.tokens).toBeGreaterThan(0);
    }
    expect([fake.engine.stats().recreations, fake.creations()]).toEqual([3, 4]);
    await expectGone(fake, /lost, and 3 backends made anew did not bring it back: .*fell off/);
  });

  it('is given up as soon when no backend can be made, and the last reason is named', async () => {
    const cause = new StetError('STET_ERR_BACKEND_UNAVAILABLE', 'no adapter');
    const engine = { limits: { ...ENGINE.limits, maxRecreations: 2 } };
    const beforeCreate = (creation: number) => {
      if (creation > 0) throw cause;
    };
    const fake = await fakeEngine({ engine, wrap: losing(() => 4), beforeCreate });
    const { error } = await readToError(fake.engine.generate(REQUEST));
    expect(error).toMatchObject({ ...LOST, cause });
    expect([fake.engine.stats().recreations, fake.creations()]).toEqual([0, 3]);
    await expectGone(fake, /2 backends made anew .*STET_ERR_BACKEND_UNAVAILABLE: no adapter/);
  });

  it('is given up at once where the engine was told so', async () => {
    const fake = await fakeEngine({ engine: { ...ENGINE, onDeviceLost: 'fail' }, wrap: losing(() => 20) });
    const { tokens, error } = await readToError(fake.engine.generate(REQUEST));
    expect(tokens).toBeGreaterThan(0);
    expect(error).toMatchObject(LOST);
    expect([fake.engine.stats().recreations, fake.creations()]).toEqual([0, 1]);
    await expectGone(fake, /^the device fell off$/);
  });

  const others: [change: Partial<BackendInfo>, message: RegExp][] = [
    [{ blockCount: 50 }, /blockCount is 50, was 65/],
    [{ maxRows: 8 }, /maxRows is 8, was 16/],
    [{ fast: 'canonical' }, /fast is canonical, was free/],
    [{ canonical: 'none', numerics: null }, /its fingerprint is .+, was /],
    [{ canonical: 'fixed-shape' }, /names no shape|fixed shape/],
  ];
  it.each(others)('is not replaced by another kind of backend: %j', async (change, message) => {
    const wrap = (backend: Backend, creation: number): Backend => ({
      ...losing(once(6))(backend, creation),
      info: creation === 0 ? backend.info : { ...backend.info, ...change },
    });
    const fake = await fakeEngine({ ...FAKE, engine: ENGINE, wrap });
    const { error } = await readToError(fake.engine.generate(REQUEST));
    expect(error).toMatchObject({ ...LOST, message: expect.stringMatching(message) });
    expect([fake.engine.stats().recreations, fake.creations()]).toEqual([0, 2]);
    await expectGone(fake, message);
  });

  it('is a reason for creation to fail when it is lost before the first request', async () => {
    const refused = fakeEngine({ ...FAKE, engine: { ...ENGINE, policy: 'auto' }, wrap: losing(() => 0) });
    await expect(refused).rejects.toMatchObject(LOST);
  });

  it('has no third way', async () => {
    const onDeviceLost = 'ignore' as CreateEngineOptions['onDeviceLost'] & string;
    await expect(fakeEngine({ engine: { onDeviceLost } })).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
      message: expect.stringContaining('recreate and fail'),
    });
  });
});
