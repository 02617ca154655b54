import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';
import type { ObservedStream } from './support/stream-checker.js';

const request = { prompt: 'p', maxTokens: 40, deterministic: true, seed: 11, logprobs: 1 };

/** The hash of the first tokens of a stream whose frames were one token each. */
async function hashesOf(): Promise<{ whole: ObservedStream; hashes: string[] }> {
  const { connect } = await serve({ windowTokens: 1 });
  const client = await connect();
  const whole = await client.generate('w', request);
  const hashes = [''];
  for (const frame of client.frames) if (frame.type === 'commit') hashes[frame.from + 1] = frame.hash;
  expect(hashes).toHaveLength(41);
  return { whole, hashes };
}

describe('a deterministic request that is sent again with what the client has of it', () => {
  it.each([{ provisional: false }, { provisional: true }])(
    'gets the rest from another server, wherever its windows end: %o',
    async ({ provisional }) => {
      const { whole, hashes } = await hashesOf();
      const { connect, engine } = await serve({ windowTokens: 7 });
      const client = await connect();
      for (let after = 1; after <= 40; after++) {
        client.frames.length = 0;
        const stream = await client.generate('a', { ...request, provisional, after, hash: hashes[after] });
        expect(stream.accepted).toMatchObject({ seed: 11, after, fingerprint: whole.accepted!.fingerprint });
        expect(stream.tokens).toEqual(whole.tokens.slice(after));
        const head = whole.tokens.slice(0, after).map((token) => `w${token} `);
        expect(head.join('') + stream.text).toBe(whole.text);
        if (after < 40) expect(stream.hash).toBe(whole.hash);
        expect(stream.end).toMatchObject({ type: 'done', receipt: { outputHash: whole.hash, outputTokens: 40 } });
        const logprobs = client.frames.flatMap((frame) => (frame.type === 'commit' ? frame.logprobs! : []));
        expect(logprobs.map(({ token }) => token)).toEqual(stream.tokens);
      }
      expect(engine.stats().running).toBe(0);
    },
  );

  it('ends with STET_ERR_RESUME_MISMATCH and no token if its tokens are others', async () => {
    const { hashes } = await hashesOf();
    const { connect, idle } = await serve({ windowTokens: 7 });
    const client = await connect();
    const wrong: [string, object][] = [
      ['another hash', { after: 9, hash: hashes[10] }],
      ['another seed', { after: 9, hash: hashes[9], seed: 12 }],
      ['another prompt', { after: 9, hash: hashes[9], prompt: 'q' }],
    ];
    for (const [, fields] of wrong) {
      const stream = await client.generate('a', { ...request, provisional: true, ...fields });
      expect(stream).toMatchObject({ frames: 2, tokens: [] });
      expect(stream.end).toMatchObject({ code: 'STET_ERR_RESUME_MISMATCH', seq: 1, retryable: false });
    }
    await idle();
  });

  it('ends so, too, if its output is shorter', async () => {
    const { hashes } = await hashesOf();
    // Where the request does not say how long, the context does.
    const { connect } = await serve({ contextLength: 21 });
    const stream = await (await connect()).generate('a', {
      ...request,
      maxTokens: undefined,
      after: 30,
      hash: hashes[30],
    });
    expect(stream.end).toMatchObject({ code: 'STET_ERR_RESUME_MISMATCH', message: 'the output has 20 tokens only' });
  });

  it('has a handle of its own, by which it can be resumed from there on', async () => {
    const { whole, hashes } = await hashesOf();
    const { connect } = await serve({ windowTokens: 4 }, { resumeWindowMs: 60_000 });
    const client = await connect();
    const stream = await client.generate('a', { ...request, after: 10, hash: hashes[10] });
    expect((await client.resume('b', stream, { after: 10 })).tokens).toEqual(whole.tokens.slice(10));
    expect((await client.resume('b', stream, { after: 0 })).end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
  });

  it('counts only what it sends against its credit', async () => {
    const { whole, hashes } = await hashesOf();
    const { connect } = await serve({ windowTokens: 4 });
    const client = await connect();
    const stream = await client.generateUntil('a', 3, { ...request, after: 25, hash: hashes[25], credit: 3 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(stream.tokens).toEqual(whole.tokens.slice(25, 28));
    client.send({ type: 'credit', id: 'a', n: 100 });
    await client.until(() => stream.end !== undefined, 'the end');
    expect(stream.hash).toBe(whole.hash);
  });

  it('can be cancelled before it has caught up', async () => {
    const { connect, engine, idle } = await serve({ contextLength: 1e9 });
    const client = await connect();
    const cancelled = client.generate('a', { ...request, maxTokens: 1e8, after: 1e7, hash: 'a'.repeat(64) });
    await client.until(() => client.streams.get('a')!.accepted !== undefined, 'its acceptance');
    expect(engine.stats().running).toBe(1);
    client.send({ type: 'cancel', id: 'a' });
    expect(await cancelled).toMatchObject({ tokens: [], end: { code: 'STET_ERR_ABORTED', seq: 1 } });
    await idle();
  });
});
