import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';
import type { ObservedStream } from './support/stream-checker.js';

/** Longer than any test, so that nothing ends by itself. */
const patient = { resumeWindowMs: 60_000 };

/** Two parts of one stream, held against the whole. */
function expectWhole(parts: readonly ObservedStream[], whole: ObservedStream): void {
  expect(parts.flatMap(({ tokens }) => tokens)).toEqual(whole.tokens);
  expect(parts.map(({ text }) => text).join('')).toBe(whole.text);
  expect(parts.at(-1)!.end).toMatchObject({ type: 'done' });
  if (parts.at(-1)!.tokens.length > 0) expect(parts.at(-1)!.hash).toBe(whole.hash);
}

describe('a stream whose socket was lost', () => {
  it.each([{ deterministic: false }, { deterministic: true, provisional: true }, { deterministic: true, logprobs: 2 }])(
    'goes on where its client was, nothing lost and nothing doubled: %o',
    async (fields) => {
      const { connect, server } = await serve({}, patient);
      const request = { prompt: 'p', maxTokens: 700, ...fields };
      const whole = await (await connect()).generate('a', request);
      const client = await connect();
      const lost = await client.generateUntil('a', 20, request);
      client.socket.terminate();
      await client.closed;
      const next = await connect();
      const resumed = await next.resume('b', lost);
      expectWhole([lost, resumed], whole);
      expect(resumed.accepted).toMatchObject({
        id: 'b',
        seq: 0,
        after: lost.tokenCount,
        stream: lost.accepted!.stream,
        seed: lost.accepted!.seed,
        params: lost.accepted!.params,
      });
      expect(server.stats()).toMatchObject({ streams: 0, detachedStreams: 2 });
    },
  );

  it('goes on from any place where a commit ended, as often as its client asks', async () => {
    const { connect } = await serve({ windowTokens: 4 }, patient);
    const client = await connect();
    const whole = await client.generate('a', { deterministic: true, maxTokens: 30 });
    const boundaries = client.frames.flatMap((frame) => (frame.type === 'commit' ? [frame.from] : []));
    expect(boundaries.length).toBeGreaterThan(3);
    for (let after = 0; after <= 30; after++) {
      const resumed = await client.resume('b', whole, { after });
      if (after === 30 || boundaries.includes(after)) {
        expect(resumed.accepted?.after).toBe(after === 0 ? undefined : after);
        expect(resumed.tokens).toEqual(whole.tokens.slice(after));
        expect(resumed.end).toEqual({ ...whole.end, id: 'b', seq: resumed.frames - 1 });
      } else
        expect(resumed.end).toMatchObject({
          code: 'STET_ERR_BAD_REQUEST',
          seq: 0,
          message: `after: no commit ended with ${after} tokens`,
        });
    }
    const beyond = await client.resume('b', whole, { after: 31 });
    expect(beyond.end).toMatchObject({ code: 'STET_ERR_BAD_REQUEST', message: 'after: only 30 tokens were committed' });
  });

  it('pauses when its buffer is full, and goes on once it is resumed', async () => {
    const limits = { ...patient, resumeBufferBytes: 8192 };
    const { connect, engine, server } = await serve({ contextLength: 10_000 }, limits);
    const whole = await (await connect()).generate('a', { prompt: 'p', maxTokens: 3000 });
    const client = await connect();
    const lost = await client.generateUntil('a', 20, { prompt: 'p', maxTokens: 3000 });
    client.socket.terminate();
    await waitFor(() => server.stats().keptBytes >= 8192, 'a full buffer');
    await waitFor(() => server.stats().sockets === 1, 'the end of the socket');
    await new Promise((resolve) => setTimeout(resolve, 100));
    const paused = engine.stats().committedTokens;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(engine.stats()).toMatchObject({ running: 1, committedTokens: paused });
    // The streams' limits, and for each the commit that passed it.
    expect(server.stats().keptBytes).toBeLessThan(2 * (8192 + 1024));
    expectWhole([lost, await (await connect()).resume('b', lost)], whole);
  });

  it('may be lost again and again', async () => {
    const { connect } = await serve({}, patient);
    const whole = await (await connect()).generate('a', { prompt: 'p', maxTokens: 900 });
    let client = await connect();
    const parts = [await client.generateUntil('a', 10, { prompt: 'p', maxTokens: 900 })];
    for (let round = 0; round < 5; round++) {
      client.socket.terminate();
      client = await connect();
      const last = parts.at(-1)!;
      const ended = client.resume('a', last);
      ended.catch(() => {});
      await client.until(() => client.streams.get('a')!.tokens.length >= 50, 'tokens');
      parts.push(client.streams.get('a')!);
    }
    await client.until(() => parts.at(-1)!.end !== undefined, 'the end');
    expectWhole(parts, whole);
  });

  it('is freed and unknown when nobody comes in time', async () => {
    const { connect, engine, idle, server } = await serve({ contextLength: 1e9 }, { resumeWindowMs: 150 });
    const client = await connect();
    const lost = await client.generateUntil('a', 5, { maxTokens: 1e8 });
    client.socket.terminate();
    await waitFor(() => server.stats().detachedStreams === 1, 'a stream without a socket');
    expect(engine.stats().running).toBe(1);
    await idle();
    expect(server.stats()).toMatchObject({ detachedStreams: 0, keptBytes: 0 });
    const resumed = await (await connect()).resume('b', lost);
    expect(resumed.end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM', seq: 0, retryable: false });
  });

  it.each([
    {
      how: 'its client closes the socket with 1000',
      close: (socket: { close(code?: number): void }) => socket.close(1000),
    },
    { how: 'its client closes the socket without a code', close: (socket: { close(): void }) => socket.close() },
  ])('is not kept when $how', async ({ close }) => {
    const { connect, idle, server } = await serve({ contextLength: 1e9 }, patient);
    const client = await connect();
    const lost = await client.generateUntil('a', 5, { maxTokens: 1e8 });
    close(client.socket);
    await idle();
    expect(server.stats()).toMatchObject({ detachedStreams: 0, keptBytes: 0 });
    expect((await (await connect()).resume('b', lost)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
  });

  it('is not kept when its client broke WebSocket itself', async () => {
    const { connect, idle, server } = await serve({ contextLength: 1e9 }, patient);
    const client = await connect();
    await client.generateUntil('a', 5, { maxTokens: 1e8 });
    client.raw.write(Buffer.from([0x83, 0x80, 0, 0, 0, 0]));
    await idle();
    expect(server.stats()).toMatchObject({ detachedStreams: 0, keptBytes: 0 });
  });

  it('is not kept when it was cancelled, nor where nothing is kept', async () => {
    const kept = await serve({}, patient);
    const client = await kept.connect();
    const cancelled = client.generate('a', { maxTokens: 900 });
    await client.until(() => client.streams.get('a')!.tokens.length > 5, 'tokens');
    client.send({ type: 'cancel', id: 'a' });
    expect((await client.resume('b', await cancelled)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
    const off = await serve({}, { resumeWindowMs: 0 });
    const other = await off.connect();
    const ended = await other.generate('a');
    expect((await other.resume('b', ended)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
    expect(off.server.stats().keptBytes).toBe(0);
  });

  it('gives one who missed the end the same end again: done, or the error of the engine', async () => {
    const error = new Error('secret');
    const failure = ({ prompt }: { prompt?: string }) => (prompt === 'fails' ? { afterTokens: 9, error } : undefined);
    const { connect } = await serve({ failure }, patient);
    const client = await connect();
    for (const prompt of ['works', 'fails']) {
      const ended = await client.generate('a', { prompt });
      const resumed = await (await connect()).resume('b', ended);
      expect(resumed.tokens).toEqual([]);
      expect(resumed.end).toEqual({ ...ended.end, id: 'b', seq: 1 });
    }
  });

  it('cannot be had from before what is kept of it', async () => {
    const { connect } = await serve({}, { ...patient, resumeBufferBytes: 4096 });
    const client = await connect();
    const ended = await client.generate('a', { maxTokens: 500 });
    const early = await client.resume('b', ended, { after: 0 });
    expect(early.end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM', seq: 0 });
    const start = Number(/output token (\d+)/.exec((early.end as { message: string }).message)![1]);
    expect(start).toBeGreaterThan(400);
    expect((await client.resume('b', ended, { after: start })).tokens).toEqual(ended.tokens.slice(start));
  });

  it('stays where a resume is refused', async () => {
    const { connect } = await serve({ contextLength: 1e9 }, { ...patient, maxStreamsPerSocket: 1 });
    const client = await connect();
    const ended = await client.generate('a');
    client.send({ type: 'generate', id: 'long', prompt: 'p', maxTokens: 1e8 });
    expect((await client.resume('b', ended)).end).toMatchObject({ code: 'STET_ERR_TOO_MANY_STREAMS', retryable: true });
    expect((await (await connect()).resume('b', ended)).end).toMatchObject({ type: 'done' });
    client.socket.close();
  });
});

describe('a stream that still has a socket', () => {
  it('is taken over by the one who resumes it, and the other is told', async () => {
    const { connect, server } = await serve({}, patient);
    const whole = await (await connect()).generate('a', { prompt: 'p', maxTokens: 900 });
    const dead = await connect();
    const lost = await dead.generateUntil('a', 20, { prompt: 'p', maxTokens: 900 });
    dead.raw.pause();
    const next = await connect();
    // What is under way to the one that was paused is not received.
    const received = { tokens: [...lost.tokens], text: lost.text } as ObservedStream;
    const resumed = await next.resume('b', lost);
    expectWhole([received, resumed], whole);
    dead.raw.resume();
    await dead.until(() => lost.end !== undefined, 'the end under the old id');
    expect(lost.end).toMatchObject({ code: 'STET_ERR_TAKEN_OVER', id: 'a', retryable: false });
    expect((await dead.generate('a')).end).toMatchObject({ type: 'done' });
    expect(server.stats().streams).toBe(0);
  });

  it('may be taken over on the same socket', async () => {
    const { connect } = await serve({}, patient);
    const client = await connect();
    const whole = await client.generate('w', { prompt: 'p', maxTokens: 900 });
    const first = await client.generateUntil('a', 20, { prompt: 'p', maxTokens: 900 });
    const resumed = await client.resume('b', first, { after: 5 });
    expect(resumed.tokens).toEqual(whole.tokens.slice(5));
    await client.until(() => first.end !== undefined, 'the end under the old id');
    expect(first.end).toMatchObject({ code: 'STET_ERR_TAKEN_OVER' });
  });
});

describe('the streams that are kept', () => {
  it('are so many of a key, and one more pushes out the oldest that has ended, or else the oldest', async () => {
    const limits = { ...patient, maxDetachedStreamsPerKey: 2 };
    const { connect, engine, server } = await serve({ contextLength: 1e9 }, limits);
    const lose = async (prompt: string) => {
      const client = await connect();
      const lost = await client.generateUntil('a', 2, { prompt, maxTokens: 1e8 });
      const before = server.stats().sockets;
      client.socket.terminate();
      await waitFor(() => server.stats().sockets < before, 'the end of the socket');
      return lost;
    };
    const client = await connect();
    const running = await lose('one');
    const ended = await client.generate('a');
    const second = await lose('two');
    expect(server.stats().detachedStreams).toBe(2);
    expect((await client.resume('r', ended)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
    const third = await lose('three');
    expect((await client.resume('r', running)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
    await waitFor(() => engine.stats().running === 2, 'the end of the oldest');
    for (const [index, lost] of [second, third].entries()) {
      client.send({ type: 'resume', id: `${index}`, stream: lost.accepted!.stream, after: lost.tokenCount });
      await client.until(() => (client.streams.get(`${index}`)?.tokens.length ?? 0) > 3, 'tokens');
    }
    expect(server.stats()).toMatchObject({ streams: 2, detachedStreams: 0 });
    client.socket.close();
  });

  it('are so many of all keys together, and one more never pushes out a stream of another key', async () => {
    const keys = ['one', 'two'].map((name) => ({ name, key: `sk-${name}-${'x'.repeat(40)}` }));
    const { connect, server } = await serve({}, { ...patient, maxDetachedStreams: 2 }, { keys });
    const as = (index: number) => connect('stet.v1', { headers: { authorization: `Bearer ${keys[index]!.key}` } });
    const [one, two] = [await as(0), await as(1)];
    const kept = [await one.generate('a'), await one.generate('b')];
    const crowdedOut = await two.generate('c');
    expect(server.stats().detachedStreams).toBe(2);
    expect((await two.resume('r', crowdedOut)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
    for (const stream of kept) expect((await one.resume('r', stream)).end).toMatchObject({ type: 'done' });
    await one.generate('d');
    expect((await one.resume('r', kept[0]!)).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
  });

  it('hold together no more bytes than allowed', async () => {
    const limits = { ...patient, resumeBufferBytes: 64 * 1024, resumeTotalBytes: 32 * 1024 };
    const { connect, engine, server } = await serve({ contextLength: 1e9 }, limits);
    const client = await connect();
    const ids = ['a', 'b', 'c', 'd'];
    const lost = [];
    for (const id of ids) lost.push(await client.generateUntil(id, 30, { maxTokens: 1e8 }));
    client.socket.terminate();
    await waitFor(() => server.stats().detachedStreams === 4, 'streams without a socket');
    await waitFor(() => server.stats().keptBytes >= 32 * 1024, 'full buffers');
    await new Promise((resolve) => setTimeout(resolve, 100));
    const paused = engine.stats().committedTokens;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(engine.stats().committedTokens).toBe(paused);
    // One commit of each may have been under way.
    expect(server.stats().keptBytes).toBeLessThan(32 * 1024 + 4 * 1024);
    const next = await connect();
    next.send({ type: 'resume', id: 'a', stream: lost[0]!.accepted!.stream, after: lost[0]!.tokenCount });
    await next.until(() => (next.streams.get('a')?.tokens.length ?? 0) > 2000, 'more than was kept');
    next.socket.close();
  });

  it('are cancelled at once when the server goes away, and cannot be resumed on a socket that is left', async () => {
    const { connect, engine, server } = await serve({ contextLength: 1e9 }, { ...patient, drainMs: 60_000 });
    const client = await connect();
    const lost = await client.generateUntil('a', 5, { maxTokens: 1e8 });
    client.socket.terminate();
    await waitFor(() => server.stats().detachedStreams === 1, 'a stream without a socket');
    const other = await connect();
    const ended = await other.generate('e');
    const running = await other.generateUntil('b', 2, { maxTokens: 1e8 });
    const closing = server.close();
    expect(server.stats()).toMatchObject({ detachedStreams: 0, streams: 1 });
    await waitFor(() => engine.stats().running === 1, 'the end of the stream without a socket');
    for (const stream of [lost, ended])
      expect((await other.resume('r', stream)).end).toMatchObject({ code: 'STET_ERR_SHUTTING_DOWN', retryable: true });
    expect(running.end).toBeUndefined();
    // A socket that is lost now leaves nothing behind.
    other.socket.terminate();
    await closing;
  });

  it('belong to their key: to every other a handle is unknown', async () => {
    const keys = ['one', 'two'].map((name) => ({ name, key: `sk-${name}-${'x'.repeat(40)}` }));
    const { connect, server } = await serve({ contextLength: 1e9 }, patient, { keys });
    const as = (index: number) => connect('stet.v1', { headers: { authorization: `Bearer ${keys[index]!.key}` } });
    const owner = await as(0);
    const lost = await owner.generateUntil('a', 5, { maxTokens: 1e8 });
    const attached = await owner.generateUntil('b', 5, { maxTokens: 1e8 });
    const stranger = await as(1);
    const unknown = await stranger.resume('u', lost, { stream: crypto.randomUUID() });
    for (const stream of [lost, attached]) {
      const refused = await stranger.resume('u', stream);
      expect(refused.end).toEqual(unknown.end);
      expect(refused.end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
    }
    expect(attached.end).toBeUndefined();
    owner.socket.terminate();
    await waitFor(() => server.stats().detachedStreams === 2, 'streams without a socket');
    expect((await stranger.resume('u', lost)).end).toEqual(unknown.end);
    const again = await as(0);
    again.send({ type: 'resume', id: 'a', stream: lost.accepted!.stream, after: lost.tokenCount });
    await again.until(() => (again.streams.get('a')?.tokens.length ?? 0) > 5, 'tokens');
    server.replaceKeys([keys[1]!]);
    await waitFor(() => server.stats().streams === 0, 'the end of the streams of a revoked key');
    expect(server.stats()).toMatchObject({ detachedStreams: 0, keptBytes: 0 });
    expect(await again.closed).toMatchObject({ code: 1008 });
  });
});

describe('a reader that reads nothing and is then lost', () => {
  it('holds no more than its marks and its buffer and slows nobody; what is no longer kept is unknown', async () => {
    const wide = { textOf: (token: number) => `${token}`.padEnd(4096, '.'), contextLength: 1e9, maxUnreadTokens: 8 };
    const limits = {
      ...{ highWaterBytes: 64 * 1024, lowWaterBytes: 16 * 1024, slowReaderMs: 60_000 },
      ...{ ...patient, resumeBufferBytes: 64 * 1024 },
    };
    const { connect, engine, server } = await serve(wide, limits);
    const slow = await connect();
    const lost = await slow.generateUntil('a', 1, { maxTokens: 1e8 });
    slow.raw.pause();
    await waitFor(() => server.stats().unsentBytes > limits.highWaterBytes, 'a full outbox', 30_000);
    slow.socket.terminate();
    await waitFor(() => server.stats().detachedStreams === 1, 'a stream without a socket');
    const quick = await connect();
    for (let round = 0; round < 2; round++)
      expect((await quick.generate('x', { maxTokens: 300 })).tokens).toHaveLength(300);
    const frameBytes = (wide.maxUnreadTokens + 2) * 4300;
    expect(server.stats().keptBytes).toBeLessThan(3 * (limits.resumeBufferBytes + frameBytes));
    expect(engine.stats().running).toBe(1);
    const resumed = await quick.resume('r', lost);
    expect(resumed.end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
  });
});
