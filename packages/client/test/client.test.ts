import { isStetError } from '@stet/backend';
import { type ClientEvent, connect, StreamError } from '@stet/client';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { connected, waitFor } from './harness.js';

async function readAll(events: AsyncIterable<ClientEvent>): Promise<{ events: ClientEvent[]; text: string }> {
  const read: ClientEvent[] = [];
  for await (const event of events) read.push(event);
  return { events: read, text: read.map((event) => (event.type === 'commit' ? event.text : '')).join('') };
}

async function errorOf(events: AsyncIterable<ClientEvent>): Promise<StreamError> {
  const error = await readAll(events).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StreamError);
  expect(isStetError(error)).toBe(true);
  return error as StreamError;
}

describe('generate', () => {
  it('gives the events that the engine gives', async () => {
    const { client, engine } = await connected();
    const request = { prompt: 'p', deterministic: true, maxTokens: 20, seed: 3, logprobs: 1 } as const;
    const remote = await readAll(client.generate(request));
    let text = '';
    let hash = '';
    for await (const event of engine.generate(request)) {
      if (event.type !== 'commit') continue;
      text += event.text;
      hash = event.hash;
    }
    expect(remote.text).toBe(text);
    expect(remote.events[0]).toMatchObject({ type: 'accepted', seed: 3, fingerprint: 'scripted-1' });
    expect(remote.events.at(-1)).toMatchObject({ type: 'done', usage: { completionTokens: 20 } });
    const commits = remote.events.filter((event) => event.type === 'commit');
    expect(commits.at(-1)!.hash).toBe(hash);
    expect(commits.flatMap(({ logprobs }) => logprobs!)).toHaveLength(20);
    expect(remote.events[0]).not.toHaveProperty('seq');
  });

  it('runs many streams over one socket', async () => {
    const { client, server } = await connected();
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) => readAll(client.generate({ promptTokens: [index], maxTokens: 30 }))),
    );
    expect(new Set(answers.map(({ text }) => text)).size).toBe(30);
    expect(server.stats().sockets).toBe(1);
  });

  it('passes on candidates and rollbacks', async () => {
    const { client } = await connected();
    const { events } = await readAll(
      client.generate({ prompt: 'p', deterministic: true, provisional: true, maxTokens: 24 }),
    );
    expect(events.filter(({ type }) => type === 'rollback')).toHaveLength(2);
  });

  it('throws the error of the server with its code', async () => {
    const { client } = await connected();
    const error = await errorOf(client.generate({ prompt: 'p', maxTokens: -1 }));
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_REQUEST', retryable: false });
    expect(error.message).toContain('maxTokens');
    expect(error.hint).toBe('Fix the named parameter.');
    const long = client.generate({ prompt: 'word '.repeat(5000) });
    expect(await errorOf(long)).toMatchObject({ code: 'STET_ERR_CONTEXT_LENGTH' });
  });

  it('tells of unknown fields as warnings', async () => {
    const { client } = await connected();
    const { events } = await readAll(client.generate({ prompt: 'p', maxTokens: 1, topk: 3 } as never));
    expect(events[0]).toMatchObject({ warnings: ['unknown field "topk"'] });
  });

  it('refuses a request that is too large for a frame without harming the others', async () => {
    const { client } = await connected();
    const other = readAll(client.generate({ prompt: 'p', maxTokens: 100 }));
    const error = await errorOf(client.generate({ prompt: 'ß'.repeat(600_000) }));
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_REQUEST' });
    expect((await other).events.at(-1)).toMatchObject({ type: 'done' });
  });

  it('cancels on the server when its loop is left', async () => {
    const { client, engine } = await connected();
    for await (const event of client.generate({ prompt: 'p', maxTokens: 1000 })) if (event.type === 'commit') break;
    await waitFor(() => engine.stats().running === 0, 'the cancel');
    expect((await readAll(client.generate({ prompt: 'q', maxTokens: 3 }))).events.at(-1)).toMatchObject({
      type: 'done',
    });
  });

  it('cancels on the server when its signal is aborted: before, during and after', async () => {
    const { client, engine } = await connected();
    const reason = new Error('enough');
    expect(await errorOf(client.generate({ prompt: 'p' }, { signal: AbortSignal.abort(reason) }))).toMatchObject({
      code: 'STET_ERR_ABORTED',
      cause: reason,
    });
    expect(engine.stats().committedTokens).toBe(0);
    const controller = new AbortController();
    const events = client.generate({ prompt: 'p', maxTokens: 1000 }, { signal: controller.signal });
    await events.next();
    controller.abort(reason);
    expect(await errorOf(events)).toMatchObject({ code: 'STET_ERR_ABORTED', cause: reason, retryable: false });
    expect(await events.next()).toEqual({ done: true, value: undefined });
    await waitFor(() => engine.stats().running === 0, 'the cancel');
    const late = new AbortController();
    const finished = client.generate({ prompt: 'p', maxTokens: 2 }, { signal: late.signal });
    await waitFor(() => engine.stats().running === 0, 'the end');
    await readAll(finished);
    late.abort();
    expect(await finished.next()).toEqual({ done: true, value: undefined });
  });

  it('merges what is not read, and loses nothing', async () => {
    const { client, engine, server } = await connected({ contextLength: 10_000 });
    const expected = await readAll(client.generate({ prompt: 'p', maxTokens: 5000 }));
    const events = client.generate({ prompt: 'p', maxTokens: 5000 });
    expect((await events.next()).value).toMatchObject({ type: 'accepted' });
    await waitFor(() => engine.stats().running === 0 && server.stats().streams === 0, 'the end on the server');
    await client.ping();
    const rest = await readAll(events);
    expect(rest.events.map(({ type }) => type)).toEqual(['commit', 'done']);
    expect(rest.text).toBe(expected.text);
  });
});

describe('the connection', () => {
  it('measures a ping', async () => {
    const { client } = await connected();
    const measured = await Promise.all([client.ping(), client.ping()]);
    for (const milliseconds of measured) expect(milliseconds).toBeGreaterThan(0);
  });

  it('fails with a code where there is no server', async () => {
    const error = await connect('ws://127.0.0.1:1').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION', retryable: true });
    const detailed = await connect('ws://127.0.0.1:1', { WebSocket }).catch((thrown: unknown) => thrown);
    expect((detailed as Error).message).toContain('ECONNREFUSED');
    for (const address of ['nonsense', 'ftp://a', ''])
      await expect(connect(address)).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
  });

  it('ends its streams when it is lost and not to be made anew; the next request makes it anew', async () => {
    const sockets: WebSocket[] = [];
    class Spied extends WebSocket {
      constructor(url: string, protocols: string | string[]) {
        super(url, protocols);
        sockets.push(this);
      }
    }
    const { server, engine } = await connected();
    await using client = await connect(server.url, { WebSocket: Spied, reconnect: false });
    const streams = [1, 2].map(() => errorOf(client.generate({ prompt: 'p', maxTokens: 1000 })));
    await waitFor(() => engine.stats().running === 2, 'both streams');
    sockets[0]!.terminate();
    for (const error of await Promise.all(streams))
      expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION', retryable: true });
    expect(client.state).toMatchObject({ kind: 'offline', error: { code: 'STET_ERR_CONNECTION' } });
    const answers = await Promise.all([1, 2, 3].map(() => readAll(client.generate({ prompt: 'p', maxTokens: 3 }))));
    for (const { events } of answers) expect(events.at(-1)).toMatchObject({ type: 'done' });
    expect(sockets).toHaveLength(2);
  });

  it('gives the code of a server that shuts down', async () => {
    const { client, server, engine } = await connected({}, {}, { reconnect: false });
    const stream = errorOf(client.generate({ prompt: 'p', maxTokens: 1000 }));
    await waitFor(() => engine.stats().running === 1, 'the stream');
    await server.close();
    expect(await stream).toMatchObject({ code: 'STET_ERR_SHUTTING_DOWN', retryable: true });
    expect(await errorOf(client.generate({ prompt: 'p' }))).toMatchObject({ code: 'STET_ERR_CONNECTION' });
    await expect(client.ping()).rejects.toMatchObject({ code: 'STET_ERR_CONNECTION' });
  });

  it('ends its streams when the client is closed, which then takes no more', async () => {
    const { client, engine } = await connected();
    const stream = errorOf(client.generate({ prompt: 'p', maxTokens: 1000 }));
    await waitFor(() => engine.stats().running === 1, 'the stream');
    await Promise.all([client.close(), client.close()]);
    expect(await stream).toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(await errorOf(client.generate({ prompt: 'p' }))).toMatchObject({ code: 'STET_ERR_CONNECTION' });
    await expect(client.ping()).rejects.toMatchObject({ code: 'STET_ERR_CONNECTION' });
    await waitFor(() => engine.stats().running === 0, 'the cancel');
  });
});
