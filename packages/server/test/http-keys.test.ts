import { createServer, newApiKey, type ServerLimits, type StetServer } from '@stet/server';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { waitFor } from './support/harness.js';
import { chunkOf, engineCalling, sleep } from './support/scripted-calls.js';
import { TestSocket } from './support/test-socket.js';

const [alice, bob] = [newApiKey(), newApiKey()];
const servers: StetServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    await server.close();
    expect(server.stats()).toMatchObject({ sockets: 0, streams: 0 });
  }
});

/** A server whose completions go on until they are aborted. */
async function serve(limits: object, serverLimits: Partial<ServerLimits> = {}): Promise<StetServer> {
  async function* forever(signal: AbortSignal): AsyncGenerator<object> {
    for (;;) {
      yield chunkOf('x');
      await sleep(5, signal);
    }
  }
  const engine = engineCalling(async (params, signal) => {
    if ('stream' in params && params.stream === true) return forever(signal);
    return { id: 'cmpl-1', object: 'text_completion', choices: [] };
  });
  const keys = [
    { name: 'alice', sha256: alice.sha256, limits },
    { name: 'bob', sha256: bob.sha256 },
  ];
  const server = await createServer({ engine, keys, port: 0, limits: { drainMs: 0, ...serverLimits } });
  servers.push(server);
  return server;
}

const clientOf = (server: StetServer, apiKey: string) =>
  new OpenAI({ apiKey, baseURL: `${server.url}/v1`, maxRetries: 0 });
const connect = (server: StetServer, key: string) =>
  TestSocket.connect(server.url, 'stet.v1', { headers: { Authorization: `Bearer ${key}` } });
const params = { model: 'scripted', prompt: 'p' };

describe('the client of OpenAI’s API', () => {
  it('gets in with its key alone', async () => {
    const server = await serve({});
    expect((await clientOf(server, alice.key).models.list()).data).toHaveLength(1);
    await clientOf(server, bob.key).completions.create(params);
    for (const use of [
      (client: OpenAI) => client.models.list(),
      (client: OpenAI) => client.completions.create(params),
    ]) {
      const error = await use(clientOf(server, 'wrong')).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
      expect(error).toMatchObject({ status: 401, code: 'STET_ERR_UNAUTHORIZED' });
    }
  });

  it('is told when to come again, once it asked too often', async () => {
    const server = await serve({ requestsPerMinute: 2 });
    const client = clientOf(server, alice.key);
    await client.completions.create(params);
    await client.completions.create(params);
    const error = await client.completions.create(params).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    const { headers } = error as InstanceType<typeof OpenAI.RateLimitError>;
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(25);
    expect(Number(headers.get('retry-after-ms'))).toBeGreaterThan(25_000);
    await clientOf(server, bob.key).completions.create(params);
  });
});

describe('the streams of a key', () => {
  it('are counted over sockets and HTTP together', async () => {
    const server = await serve({ maxStreams: 2 });
    const client = clientOf(server, alice.key);
    const socket = await connect(server, alice.key);
    const stop = new AbortController();
    const stream = await client.completions.create({ ...params, stream: true }, { signal: stop.signal });
    await stream[Symbol.asyncIterator]().next();
    expect((await socket.generate('a')).end!.type).toBe('done');
    const second = await client.completions.create({ ...params, stream: true });
    await second[Symbol.asyncIterator]().next();
    expect((await socket.generate('b')).end).toMatchObject({ code: 'STET_ERR_RATE_LIMITED', retryable: true });
    await expect(client.completions.create(params)).rejects.toMatchObject({
      status: 429,
      code: 'STET_ERR_RATE_LIMITED',
    });
    await expect(client.completions.create({ ...params, n: 3 })).rejects.toMatchObject({ status: 400 });
    await expect(client.completions.create({ ...params, prompt: ['a', 'b', 'c'] })).rejects.toMatchObject({
      status: 400,
    });
    await clientOf(server, bob.key).completions.create(params);
    stop.abort();
    second.controller.abort();
    await waitFor(() => server.stats().streams === 0, 'the end of the streams');
    expect((await socket.generate('c')).end!.type).toBe('done');
    await client.completions.create({ ...params, n: 2 });
    socket.socket.close();
    await socket.closed;
  });

  it('are cut off over HTTP too when the key is revoked, and those of others go on', async () => {
    const server = await serve({});
    const streamOf = async (key: string) => {
      const stream = await clientOf(server, key).completions.create({ ...params, stream: true });
      const events = stream[Symbol.asyncIterator]();
      await events.next();
      return { stream, events };
    };
    const [cut, kept] = [await streamOf(alice.key), await streamOf(bob.key)];
    server.replaceKeys([{ name: 'bob', sha256: bob.sha256 }]);
    const toItsEnd = async () => {
      while (!(await cut.events.next()).done);
    };
    await expect(toItsEnd()).rejects.toThrow();
    await waitFor(() => server.stats().streams === 1, 'the end of the stream');
    for (let times = 0; times < 5; times++) expect((await kept.events.next()).done).toBe(false);
    kept.stream.controller.abort();
    await waitFor(() => server.stats().streams === 0, 'the end of the other');
  });
});
