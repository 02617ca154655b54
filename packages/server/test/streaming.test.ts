import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';
import { scriptedToken } from './support/scripted-sequence.js';

describe('a stream', () => {
  it('is accepted with what will really be used, commits its tokens and is done', async () => {
    const { connect } = await serve();
    const client = await connect();
    const stream = await client.generate('a', { promptTokens: [1, 2, 3], prompt: undefined, maxTokens: 5, seed: 9 });
    const expected = [0, 1, 2, 3, 4].map((index) => scriptedToken([1, 2, 3], 9, index));
    expect(stream.tokens).toEqual(expected);
    expect(stream.text).toBe(expected.map((token) => `w${token} `).join(''));
    expect(client.frames[0]).toMatchObject({
      type: 'accepted',
      id: 'a',
      seq: 0,
      fingerprint: 'scripted-1',
      seed: 9,
      promptTokens: 3,
      params: { maxTokens: 5, deterministic: false, temperature: 0 },
    });
    expect(stream.end).toMatchObject({ type: 'done', finishReason: 'length', usage: { completionTokens: 5 } });
  });

  it('takes messages and the model by name', async () => {
    const { connect } = await serve();
    const client = await connect();
    const messages = [{ role: 'user', content: 'tell me a tale' }];
    const stream = await client.generate('a', { prompt: undefined, messages, model: 'scripted' });
    expect(stream.end!.type).toBe('done');
  });

  it('is deterministic under either name of the field', async () => {
    const { connect } = await serve();
    const client = await connect();
    await client.generate('a', { deterministic: true });
    await client.generate('b', { is_deterministic: true });
    const accepted = client.frames.filter((frame) => frame.type === 'accepted');
    expect(accepted.map(({ params }) => params.deterministic)).toEqual([true, true]);
  });

  it('shows candidates and rollbacks only when it asks for them', async () => {
    const { connect } = await serve();
    const client = await connect();
    const plain = await client.generate('a', { prompt: 'p', deterministic: true, maxTokens: 30 });
    expect(client.frames.some((frame) => frame.type === 'provisional' || frame.type === 'rollback')).toBe(false);
    const early = await client.generate('b', { prompt: 'p', deterministic: true, maxTokens: 30, provisional: true });
    expect(early.rollbacks).toBe(3);
    expect([early.text, early.tokens, early.hash]).toEqual([plain.text, plain.tokens, plain.hash]);
  });

  it('gives the same text, tokens and hash whether a window is one frame or many', async () => {
    const outcomes = [];
    for (const windowTokens of [1, 4, 64]) {
      const { connect } = await serve({ windowTokens });
      const client = await connect();
      const stream = await client.generate('a', { deterministic: true, maxTokens: 64, logprobs: 1 });
      outcomes.push({ text: stream.text, tokens: stream.tokens, hash: stream.hash });
      const commits = client.frames.filter((frame) => frame.type === 'commit');
      if (windowTokens === 64) expect(commits).toHaveLength(1);
      expect(commits.flatMap((frame) => frame.logprobs!)).toHaveLength(64);
    }
    expect(outcomes[1]).toEqual(outcomes[0]);
    expect(outcomes[2]).toEqual(outcomes[0]);
  });

  it('shares its socket with others, and their frames interleave', async () => {
    const { connect } = await serve();
    const client = await connect();
    const ids = Array.from({ length: 20 }, (_, index) => `s${index}`);
    const streams = await Promise.all(ids.map((id) => client.generate(id, { maxTokens: 40 })));
    for (const stream of streams) expect(stream.tokens).toHaveLength(40);
    const order = client.frames.flatMap((frame) => (frame.type === 'commit' ? [frame.id] : []));
    const lastOfFirst = order.lastIndexOf('s0');
    expect(new Set(order.slice(0, lastOfFirst)).size).toBe(20);
  });

  it('may reuse an id once its stream has ended', async () => {
    const { connect } = await serve();
    const client = await connect();
    for (let round = 0; round < 3; round++) expect((await client.generate('same')).end!.type).toBe('done');
  });

  it('lists the unknown fields of an ordinary request as warnings', async () => {
    const { connect } = await serve();
    const client = await connect();
    await client.generate('a', { top_k: 4, prompt: undefined, messages: [{ role: 'user', content: 'x', name: 'n' }] });
    expect(client.frames[0]).toMatchObject({
      type: 'accepted',
      warnings: ['unknown field "top_k"', 'unknown field "messages[0].name"'],
    });
  });

  it('has no warnings when there is nothing to warn of', async () => {
    const { connect } = await serve();
    const client = await connect();
    await client.generate('a');
    expect(client.frames[0]).not.toHaveProperty('warnings');
  });

  it('fails alone with the code of the engine, and with a general one for an unexpected exception', async () => {
    const { StetError } = await import('@stet/backend');
    const errors: Record<string, unknown> = {
      known: new StetError('STET_ERR_BACKEND_FAILED', 'the device is gone'),
      unknown: new Error('secret internals'),
    };
    const { connect, logged, idle } = await serve({
      failure: ({ prompt }) => (prompt! in errors ? { afterTokens: 3, error: errors[prompt!] } : undefined),
    });
    const client = await connect();
    const [known, unknown, other] = await Promise.all([
      client.generate('a', { prompt: 'known' }),
      client.generate('b', { prompt: 'unknown' }),
      client.generate('c'),
    ]);
    expect(known.end).toMatchObject({
      code: 'STET_ERR_BACKEND_FAILED',
      message: 'the device is gone',
      retryable: true,
      seq: 4,
    });
    expect(unknown.end).toMatchObject({ code: 'STET_ERR_INTERNAL', retryable: false });
    expect(JSON.stringify(unknown.end)).not.toContain('secret');
    expect(logged.some(({ fields }) => fields.err === errors.unknown)).toBe(true);
    expect(other.end!.type).toBe('done');
    await idle();
  });

  it('answers a ping with the same number', async () => {
    const { connect } = await serve();
    const client = await connect();
    client.send({ type: 'ping', t: 12.5 });
    await client.until(() => client.frames.length === 1, 'a pong');
    expect(client.frames).toEqual([{ type: 'pong', t: 12.5 }]);
  });
});

describe('cancelling', () => {
  it('ends the stream with STET_ERR_ABORTED and frees its request, while another goes on', async () => {
    const { connect, engine } = await serve();
    const client = await connect();
    const cancelled = client.generate('a', { maxTokens: 900 });
    const other = client.generate('b', { maxTokens: 200 });
    await client.until(() => client.streams.get('a')!.tokens.length > 5, 'tokens');
    client.send({ type: 'cancel', id: 'a' });
    expect((await cancelled).end).toMatchObject({ type: 'error', code: 'STET_ERR_ABORTED', retryable: false });
    expect((await cancelled).tokens.length).toBeLessThan(900);
    expect(engine.stats().running).toBe(1);
    expect((await other).tokens).toHaveLength(200);
  });

  it('is legal before the first token', async () => {
    const { connect, idle } = await serve();
    const client = await connect();
    const stream = client.generate('a', { maxTokens: 900 });
    client.send({ type: 'cancel', id: 'a' });
    expect((await stream).end).toMatchObject({ code: 'STET_ERR_ABORTED' });
    await idle();
  });
});

describe('a closed socket', () => {
  it.each(['close', 'terminate'] as const)('cancels its requests at once after %s', async (how) => {
    const { connect, engine, server, idle } = await serve();
    const client = await connect();
    const other = await connect();
    for (const id of ['a', 'b', 'c']) client.send({ type: 'generate', id, prompt: id, maxTokens: 1000 });
    await client.until(() => client.frames.length > 10, 'frames');
    expect(engine.stats().running).toBe(3);
    const goesOn = other.generate('x', { maxTokens: 300 });
    client.socket[how]();
    await client.closed;
    const before = engine.stats().committedTokens;
    expect((await goesOn).tokens).toHaveLength(300);
    await idle();
    expect(engine.stats().committedTokens - before).toBeLessThan(1000);
    expect(server.stats().sockets).toBe(1);
  });
});
