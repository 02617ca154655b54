import { describe, expect, it } from 'vitest';
import { type FakeEngine, fakeEngine, readAll, until } from './helpers.js';

const LONG = { promptTokens: [1, 2, 3], maxTokens: 200, ignoreEos: true, deterministic: true } as const;

function expectIdle({ engine }: FakeEngine): void {
  const { running, waiting, blocks } = engine.stats();
  expect({ running, waiting, held: blocks.held }).toEqual({ running: 0, waiting: 0, held: 0 });
}

async function expectWorks({ engine }: FakeEngine): Promise<void> {
  const answer = await readAll(engine.generate({ ...LONG, maxTokens: 3 }));
  expect(answer.tokens.length).toBe(3);
}

describe('a request is cancelled', () => {
  it('before it begins, by a signal that has fired: nothing runs', async () => {
    await using fake = await fakeEngine();
    const reason = new Error('changed my mind');
    const stream = fake.engine.generate(LONG, { signal: AbortSignal.abort(reason) });
    await expect(stream.next()).rejects.toMatchObject({ code: 'STET_ERR_ABORTED', cause: reason });
    expect(await stream.next()).toEqual({ done: true, value: undefined });
    expect(fake.backend.stepCount).toBe(0);
  });

  it('in the same turn in which it was sent', async () => {
    await using fake = await fakeEngine();
    const controller = new AbortController();
    const stream = fake.engine.generate(LONG, { signal: controller.signal });
    controller.abort();
    await expect(stream.next()).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expectIdle(fake);
  });

  it('while a step is in flight, at any step of its life, and its blocks are free at once', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.3, engine: { limits: { maxRows: 8 } } });
    const { engine, backend } = fake;
    const prompt = Array.from({ length: 50 }, (_, i) => i);
    for (let steps = 0; steps < 40; steps++) {
      const controller = new AbortController();
      const other = readAll(engine.generate({ ...LONG, maxTokens: 20 }));
      const stream = engine.generate(
        { ...LONG, promptTokens: prompt, provisional: true },
        { signal: controller.signal },
      );
      const failed = readAll(stream).catch((error: unknown) => error);
      const start = backend.stepCount;
      await until(() => backend.stepCount >= start + steps, 'some steps were made');
      backend.hold();
      await until(() => backend.inFlight, 'a step is in flight');
      controller.abort();
      expect(engine.stats().running + engine.stats().waiting).toBeLessThanOrEqual(1);
      backend.release();
      expect(await failed).toMatchObject({ code: 'STET_ERR_ABORTED' });
      expect((await other).tokens.length).toBe(20);
      expectIdle(fake);
    }
  });

  it('by leaving the loop', async () => {
    await using fake = await fakeEngine();
    const seen: string[] = [];
    for await (const event of fake.engine.generate(LONG)) {
      seen.push(event.type);
      if (seen.length === 3) break;
    }
    expectIdle(fake);
    await expectWorks(fake);
  });

  it('by return while next is waiting, which then says that nothing follows', async () => {
    await using fake = await fakeEngine();
    const stream = fake.engine.generate(LONG);
    await stream.next();
    fake.backend.hold();
    await until(() => fake.backend.inFlight, 'a step is in flight');
    // What is committed by now is one event, so at least the last two wait.
    const waiting = [1, 2, 3].map(() => stream.next());
    await stream.return?.();
    const [, second, third] = await Promise.all(waiting);
    expect(second).toEqual({ done: true, value: undefined });
    expect(third).toEqual({ done: true, value: undefined });
    expectIdle(fake);
    fake.backend.release();
    await expectWorks(fake);
  });

  it('while it is paused for a reader that does not read', async () => {
    await using fake = await fakeEngine({ engine: { limits: { maxUnreadTokens: 4 } } });
    const controller = new AbortController();
    const stream = fake.engine.generate(LONG, { signal: controller.signal });
    await until(() => fake.engine.stats().committedTokens >= 4, 'some tokens are unread');
    controller.abort();
    expectIdle(fake);
    await expect(stream.next()).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
  });

  it('without taking the last words of others with it', async () => {
    for (let maxTokens = 1; maxTokens < 30; maxTokens++) {
      await using fake = await fakeEngine();
      const controller = new AbortController();
      const lost = readAll(fake.engine.generate(LONG, { signal: controller.signal }));
      const other = readAll(fake.engine.generate({ promptTokens: [7], maxTokens, ignoreEos: true }));
      const failed = expect(lost).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
      // The other has ended for the scheduler, and its reader may not have been told yet.
      await until(() => fake.engine.stats().committedTokens > 0 && fake.engine.stats().running === 1, 'one is left');
      controller.abort();
      expect((await other).tokens).toHaveLength(maxTokens);
      await failed;
    }
  });

  it('after its end without any effect: the answer can still be read', async () => {
    await using fake = await fakeEngine();
    const controller = new AbortController();
    const stream = fake.engine.generate({ ...LONG, maxTokens: 10 }, { signal: controller.signal });
    await until(() => fake.engine.stats().committedTokens === 10, 'it has ended');
    controller.abort();
    expect((await readAll(stream)).tokens.length).toBe(10);
  });

  it('and its signal is not listened to any longer than the request lives', async () => {
    await using fake = await fakeEngine();
    const { signal } = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = EventTarget.prototype;
    signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
      listeners++;
      addEventListener.apply(signal, args);
    };
    signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
      listeners--;
      removeEventListener.apply(signal, args);
    };
    await readAll(fake.engine.generate({ ...LONG, maxTokens: 4 }, { signal }));
    for await (const _ of fake.engine.generate(LONG, { signal })) break;
    expect(listeners).toBe(0);
  });
});

function pause(): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), 5));
}

describe('many requests', () => {
  it('come, go, stall and are cancelled at random, and no block is lost', async () => {
    await using fake = await fakeEngine({
      mismatchRate: 0.2,
      engine: { kv: { blockCount: 40 }, limits: { maxUnreadTokens: 6 } },
    });
    let state = 12345;
    const random = (n: number) => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return (state >>> 8) % n;
    };
    const outcomes: Record<string, number> = {};
    const one = async (i: number) => {
      const controller = new AbortController();
      const stream = fake.engine.generate(
        {
          promptTokens: Array.from({ length: 1 + random(60) }, (_, j) => (i * 7 + j) % 256),
          ...{ maxTokens: 1 + random(50), deterministic: random(2) === 0, provisional: random(3) === 0 },
          ...{ temperature: random(2), logprobs: random(3), ignoreEos: true },
        },
        { signal: controller.signal },
      );
      const events = 1 + random(12);
      const way = ['read', 'leave', 'abort', 'stall'][random(4)]!;
      let read = 0;
      try {
        for await (const event of stream) {
          if (event.type === 'done') break;
          if (++read < events) continue;
          if (way === 'leave') break;
          if (way === 'abort') controller.abort();
          if (way === 'stall') await pause();
        }
      } catch (error) {
        expect(error).toMatchObject({ code: 'STET_ERR_ABORTED' });
      }
      outcomes[way] = (outcomes[way] ?? 0) + 1;
    };
    for (let wave = 0; wave < 15; wave++) await Promise.all(Array.from({ length: 20 }, (_, i) => one(wave * 20 + i)));
    expectIdle(fake);
    expect(Object.keys(outcomes).length).toBe(4);
    const { free, cached, total } = fake.engine.stats().blocks;
    expect(free + cached).toBe(total);
  });
});
