import { protocolLimits } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';
import type { TestSocket } from './support/test-socket.js';

const settle = () => new Promise((resolve) => setTimeout(resolve, 60));

/** Sizes of the commits of stream `id`. */
function commitSizes(client: TestSocket, id: string): number[] {
  return client.frames.flatMap((frame) => (frame.type === 'commit' && frame.id === id ? [frame.tokens.length] : []));
}

describe('a stream with credit', () => {
  it.each([{ deterministic: false }, { deterministic: true, logprobs: 1 }, { deterministic: true, provisional: true }])(
    'commits no more tokens than it has credit for, and pauses meanwhile: %o',
    async (fields) => {
      const { connect, engine } = await serve({ windowTokens: 4, maxUnreadTokens: 32 });
      const client = await connect();
      const request = { prompt: 'p', maxTokens: 300, ...fields };
      const whole = await client.generate('w', request);
      const stream = await client.generateUntil('a', 5, { ...request, credit: 5 });
      await settle();
      expect(stream.tokens).toHaveLength(5);
      const paused = engine.stats().committedTokens;
      await settle();
      // One token that waits was read, and as many as may be unread and a window.
      expect(engine.stats().committedTokens - 300).toBeLessThanOrEqual(5 + 1 + 32 + 4);
      expect(engine.stats()).toMatchObject({ running: 1, committedTokens: paused });
      client.send({ type: 'credit', id: 'a', n: 1 });
      client.send({ type: 'credit', id: 'a', n: 2 });
      await client.until(() => stream.tokens.length >= 8, 'three tokens more');
      await settle();
      expect(stream.tokens).toHaveLength(8);
      client.send({ type: 'credit', id: 'a', n: 1000 });
      await client.until(() => stream.end !== undefined, 'the end');
      expect([stream.tokens, stream.text, stream.hash]).toEqual([whole.tokens, whole.text, whole.hash]);
      // What had been committed meanwhile came merged; the scripted engine does not merge across candidates.
      if (!('provisional' in fields)) expect(Math.max(...commitSizes(client, 'a'))).toBeGreaterThan(8);
    },
  );

  it('needs none for done, nor for an error', async () => {
    const failure = ({ prompt }: { prompt?: string }) =>
      prompt === 'fails' ? { afterTokens: 8, error: new Error('broken') } : undefined;
    const { connect } = await serve({ failure });
    const client = await connect();
    const done = await client.generate('a', { prompt: 'works', maxTokens: 8, credit: 8 });
    expect(done.end).toMatchObject({ type: 'done' });
    const failed = await client.generate('b', { prompt: 'fails', maxTokens: 100, credit: 8 });
    expect(failed.end).toMatchObject({ code: 'STET_ERR_INTERNAL' });
    expect(failed.tokens).toHaveLength(8);
  });

  it('can be cancelled while it waits, and is freed', async () => {
    const { connect, idle } = await serve();
    const client = await connect();
    const stream = await client.generateUntil('a', 3, { maxTokens: 900, credit: 3 });
    client.send({ type: 'cancel', id: 'a' });
    await client.until(() => stream.end !== undefined, 'the end');
    expect(stream.end).toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(stream.tokens).toHaveLength(3);
    await idle();
  });

  it('holds up no other stream of its socket', async () => {
    const { connect } = await serve({ contextLength: 1e9 });
    const client = await connect();
    const held = await client.generateUntil('held', 1, { maxTokens: 1e8, credit: 1 });
    for (const id of ['a', 'b']) expect((await client.generate(id, { maxTokens: 500 })).tokens).toHaveLength(500);
    expect(held.tokens).toHaveLength(1);
    client.socket.close();
  });

  it('takes no more than a bounded amount ahead, and refuses the rest without harm', async () => {
    const { connect } = await serve({ contextLength: 1e9 });
    const client = await connect();
    const { maxCreditTokens } = protocolLimits;
    client.send({ type: 'generate', id: 'a', prompt: 'p', maxTokens: 1e8, credit: 2 });
    await client.until(() => client.streams.get('a')?.tokens.length === 2, 'two tokens');
    client.send({ type: 'credit', id: 'a', n: 1 });
    const error = await client.refusalOf({ type: 'credit', id: 'a', n: maxCreditTokens });
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_REQUEST', id: 'a' });
    expect(error.seq).toBeUndefined();
    await client.until(() => client.streams.get('a')!.tokens.length === 3, 'the third token');
    client.send({ type: 'cancel', id: 'a' });
    await client.until(() => client.streams.get('a')!.end !== undefined, 'the end');
    expect((await client.refusalOf({ type: 'credit', id: 'a', n: 1 })).code).toBe('STET_ERR_UNKNOWN_ID');
  });

  it('belongs to an id: resumed, the stream has what its resume gives, or flows freely', async () => {
    const { connect, server } = await serve({ windowTokens: 4 }, { resumeWindowMs: 60_000 });
    const request = { prompt: 'p', maxTokens: 200, deterministic: true };
    const first = await connect();
    const whole = await first.generate('w', request);
    const lost = await first.generateUntil('a', 6, { ...request, credit: 6 });
    first.socket.terminate();
    await waitFor(() => server.stats().keptBytes > 0 && server.stats().sockets === 0, 'a stream without a socket');
    const second = await connect();
    second.send({ type: 'resume', id: 'b', stream: lost.accepted!.stream, after: 6, credit: 10 });
    await second.until(() => (second.streams.get('b')?.tokens.length ?? 0) >= 10, 'ten tokens');
    await settle();
    const resumed = second.streams.get('b')!;
    // A commit that was made while nobody was there is sent whole: at most a window more.
    expect(resumed.tokens.length).toBeLessThan(10 + 4);
    second.socket.terminate();
    const third = await (await connect()).resume('c', resumed);
    expect([...lost.tokens, ...resumed.tokens, ...third.tokens]).toEqual(whole.tokens);
    expect(third.hash).toBe(whole.hash);
  });
});
