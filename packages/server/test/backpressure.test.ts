import type { StetServer } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';

/** A token's text that fills the buffers of the operating system within a few thousand tokens. */
const wide = { textOf: (token: number) => `${token}`.padEnd(4096, '.'), contextLength: 100_000, maxUnreadTokens: 8 };
const marks = { highWaterBytes: 64 * 1024, lowWaterBytes: 16 * 1024, slowReaderMs: 60_000 };

/** Waits until the operating system takes nothing more of an outbox that passed its high mark. */
async function stalled(server: StetServer): Promise<void> {
  let last = 0;
  let since = performance.now();
  const condition = () => {
    const { unsentBytes } = server.stats();
    if (unsentBytes !== last || unsentBytes <= marks.lowWaterBytes) since = performance.now();
    last = unsentBytes;
    return performance.now() - since > 100;
  };
  await waitFor(condition, 'a full outbox', 30_000);
}

describe('a client that does not read', () => {
  it('pauses its own sequences, so memory stays bounded, and gets everything once it reads again', async () => {
    const { connect, engine, server } = await serve(wide, marks);
    const slow = await connect();
    slow.raw.pause();
    const streams = [slow.generate('a', { maxTokens: 2500 }), slow.generate('b', { maxTokens: 2500 })];
    let greatest = 0;
    const watch = setInterval(() => {
      greatest = Math.max(greatest, server.stats().unsentBytes);
    }, 1);
    await stalled(server);
    const paused = engine.stats().committedTokens;
    await new Promise((resolve) => setTimeout(resolve, 200));
    // What may still follow: unread tokens of the two sequences until they pause.
    expect(engine.stats().committedTokens - paused).toBeLessThanOrEqual(2 * (wide.maxUnreadTokens + 2));
    expect(engine.stats().running).toBe(2);
    slow.raw.resume();
    const [a, b] = await Promise.all(streams);
    clearInterval(watch);
    expect([a!.tokens.length, b!.tokens.length]).toEqual([2500, 2500]);
    // The mark, and one frame of each stream that was under way, merged from all it may leave unread.
    expect(greatest).toBeLessThan(marks.highWaterBytes + 2 * (wide.maxUnreadTokens + 2) * 4200);
  });

  it('does not slow the streams of other sockets', async () => {
    const { connect, server } = await serve(wide, marks);
    const slow = await connect();
    const quick = await connect();
    slow.raw.pause();
    slow.send({ type: 'generate', id: 'a', prompt: 'a', maxTokens: 50_000 });
    await stalled(server);
    for (let round = 0; round < 3; round++)
      expect((await quick.generate('x', { maxTokens: 500 })).tokens).toHaveLength(500);
    slow.socket.terminate();
  });

  it('gets merged commits, fewer frames than tokens, and the same text', async () => {
    const { connect, server } = await serve(wide, marks);
    const slow = await connect();
    const quick = await connect();
    const expected = await quick.generate('a', { prompt: 'same', maxTokens: 3000 });
    slow.raw.pause();
    const merged = slow.generate('a', { prompt: 'same', maxTokens: 3000 });
    await stalled(server);
    await new Promise((resolve) => setTimeout(resolve, 50));
    slow.raw.resume();
    const stream = await merged;
    expect([stream.text, stream.tokens, stream.hash]).toEqual([expected.text, expected.tokens, expected.hash]);
    const sizes = slow.frames.map((frame) => (frame.type === 'commit' ? frame.tokens.length : 0));
    expect(Math.max(...sizes)).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(wide.maxUnreadTokens + 1);
  });

  it('is closed with 1013 after the deadline and its requests are freed, while another socket goes on', async () => {
    const { connect, engine, server, logged } = await serve(wide, {
      ...marks,
      slowReaderMs: 150,
      closeHandshakeMs: 5000,
    });
    const slow = await connect();
    const quick = await connect();
    slow.raw.pause();
    for (const id of ['a', 'b']) slow.send({ type: 'generate', id, prompt: id, maxTokens: 50_000 });
    await waitFor(() => engine.stats().running === 2, 'both streams');
    await waitFor(() => engine.stats().running === 0, 'the deadline');
    expect(logged.some(({ message }) => message === 'slow reader')).toBe(true);
    expect((await quick.generate('x')).end!.type).toBe('done');
    slow.raw.resume();
    expect(await slow.closed).toEqual({ code: 1013, reason: 'STET_ERR_SLOW_READER' });
    await waitFor(() => server.stats().sockets === 1, 'the end of the socket');
  });

  it('is cut off when it does not even read the close frame', async () => {
    const limits = { ...marks, slowReaderMs: 100, closeHandshakeMs: 100 };
    const { connect, server, logged } = await serve(wide, limits);
    const slow = await connect();
    slow.raw.pause();
    slow.send({ type: 'generate', id: 'a', prompt: 'a', maxTokens: 50_000 });
    await waitFor(() => logged.some(({ message }) => message === 'slow reader'), 'the deadline');
    expect(server.stats().unsentBytes).toBeGreaterThan(marks.lowWaterBytes);
    await waitFor(() => server.stats().sockets === 0, 'the end of the socket');
    expect(server.stats().unsentBytes).toBe(0);
    slow.raw.resume();
  });

  it('cannot pile up answers by asking on: the server stops reading it', async () => {
    const { connect, server } = await serve({}, { ...marks, slowReaderMs: 60_000 });
    const flood = await connect();
    flood.raw.pause();
    // Every one of these small frames is answered by a much larger one.
    const frame = '{"type":"x"}';
    const { socket } = flood;
    let greatest = 0;
    const floodOn = () => {
      for (let count = 0; count < 2000 && socket.bufferedAmount < 1024 * 1024; count++) socket.send(frame);
      greatest = Math.max(greatest, server.stats().unsentBytes);
      return socket.bufferedAmount >= 1024 * 1024;
    };
    await waitFor(floodOn, 'a client that is no longer read', 30_000);
    await stalled(server);
    expect(floodOn()).toBe(true);
    // The mark, and the answers to what one read of 64 KiB from the connection can hold.
    expect(greatest).toBeLessThan(marks.highWaterBytes + 2 * 1024 * 1024);
    flood.socket.terminate();
  });

  it('has its streams cancelled while they wait for room', async () => {
    const { connect, server, engine, idle } = await serve(wide, marks);
    const slow = await connect();
    slow.raw.pause();
    slow.send({ type: 'generate', id: 'a', prompt: 'a', maxTokens: 50_000 });
    await stalled(server);
    expect(engine.stats().running).toBe(1);
    slow.socket.terminate();
    await idle();
  });
});

describe('the streams of a socket', () => {
  it('take turns when there is room for few frames at a time', async () => {
    const { connect } = await serve(wide, { ...marks, highWaterBytes: 8 * 1024, lowWaterBytes: 1024 });
    const client = await connect();
    const ids = ['a', 'b', 'c', 'd'];
    client.raw.pause();
    const streams = ids.map((id) => client.generate(id, { maxTokens: 1500 }));
    await new Promise((resolve) => setTimeout(resolve, 100));
    client.raw.resume();
    await Promise.all(streams);
    const progress = new Map(ids.map((id) => [id, 0]));
    let widest = 0;
    for (const frame of client.frames) {
      if (frame.type !== 'commit') continue;
      progress.set(frame.id, frame.from + frame.tokens.length);
      widest = Math.max(widest, Math.max(...progress.values()) - Math.min(...progress.values()));
    }
    expect(widest).toBeLessThan(100);
  });
});
