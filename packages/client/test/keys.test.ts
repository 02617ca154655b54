import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from '@stet/client';
import { createServer, newApiKey, type StetServer } from '@stet/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { ScriptedEngine } from '../../server/test/support/scripted-engine.js';
import { waitFor } from './harness.js';
import { read } from './support/read.js';
import { Relay } from './support/relay.js';

const [alice, bob] = [newApiKey(), newApiKey()];
/** A stream that nobody reads stops soon, so it is there to be lost. */
const soon = { reconnect: { initialDelayMs: 1, maxDelayMs: 10 }, creditTokens: 16 };
const request = { prompt: 'p', maxTokens: 200, deterministic: true };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(): Promise<{ server: StetServer; relay: Relay }> {
  const engine = new ScriptedEngine();
  const keys = [{ name: 'alice', sha256: alice.sha256 }];
  const server = await createServer({ engine, port: 0, keys, limits: { drainMs: 0, closeHandshakeMs: 200 } });
  const relay = await Relay.to(Number(new URL(server.url).port));
  cleanups.push(async () => {
    relay.close();
    await server.close();
    expect(engine.stats()).toMatchObject({ running: 0, blocks: { held: 0 } });
  });
  return { server, relay };
}

async function ticketOf({ url }: StetServer): Promise<string> {
  const headers = { Authorization: `Bearer ${alice.key}` };
  const answer = await fetch(`${url}/v1/tickets`, { method: 'POST', headers });
  return ((await answer.json()) as { ticket: string }).ticket;
}

describe('a client with a key', () => {
  it('connects, and comes back with it', async () => {
    const { relay } = await serve();
    await using client = await connect(relay.url, { key: alice.key, ...soon });
    const stream = client.generate(request);
    await stream.next();
    relay.cut();
    const { tokens, error } = await read(stream);
    expect(error).toBeUndefined();
    expect(tokens).toHaveLength(200);
    expect(relay.connectionCount).toBe(2);
  });

  it('is told that the server does not have it, at once', async () => {
    const { server } = await serve();
    for (const options of [{}, { key: bob.key }, { key: 'x' }]) {
      const error = await connect(server.url, { WebSocket, ...options }).catch((thrown) => thrown);
      expect(error).toMatchObject({ code: 'STET_ERR_UNAUTHORIZED', retryable: false });
      expect(error.message).not.toContain(bob.key);
    }
  });

  it('ends when it is revoked, and tries no longer', async () => {
    const { server, relay } = await serve();
    await using client = await connect(relay.url, { key: alice.key, ...soon });
    const stream = client.generate(request);
    await stream.next();
    server.replaceKeys([{ name: 'bob', sha256: bob.sha256 }]);
    expect((await read(stream)).error).toMatchObject({ code: 'STET_ERR_UNAUTHORIZED', retryable: false });
    await waitFor(() => client.state.kind === 'offline', 'the close');
    expect((await read(client.generate(request))).error).toMatchObject({ code: 'STET_ERR_UNAUTHORIZED' });
    expect(relay.connectionCount).toBe(2);
  });

  it('cannot be made with the WebSocket of a platform, nor with a key that is no header', async () => {
    const { server } = await serve();
    const platform = globalThis as { WebSocket?: unknown };
    const before = platform.WebSocket;
    cleanups.push(() => {
      platform.WebSocket = before;
    });
    platform.WebSocket = class extends WebSocket {};
    const own = { key: alice.key, WebSocket: platform.WebSocket as typeof WebSocket };
    await expect(connect(server.url, own)).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
    // Without one that is named, `ws` is taken.
    await using _ = await connect(server.url, { key: alice.key });
    const error = await connect(server.url, { key: 'sécret\n' }).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'STET_ERR_UNSUPPORTED', retryable: false });
    expect(error.message).not.toContain('cret');
  });
});

describe('a client with tickets', () => {
  it('asks for one before each attempt, and comes back with another', async () => {
    const { server, relay } = await serve();
    const asked: string[] = [];
    const ticket = async () => {
      asked.push(await ticketOf(server));
      return asked.at(-1)!;
    };
    await using client = await connect(relay.url, { ticket, ...soon });
    const stream = client.generate(request);
    await stream.next();
    relay.cut();
    expect((await read(stream)).tokens).toHaveLength(200);
    expect(new Set(asked).size).toBe(2);
  });

  it('tries again when it gets none, or one that the server no longer knows', async () => {
    const { server, relay } = await serve();
    let count = 0;
    const ticket = async () => {
      count++;
      if (count === 2) throw new Error('the office is closed');
      return count === 3 ? 'unknown' : ticketOf(server);
    };
    await using client = await connect(relay.url, { ticket, ...soon });
    const stream = client.generate(request);
    await stream.next();
    relay.cut();
    expect((await read(stream)).tokens).toHaveLength(200);
    expect(count).toBe(4);
  });

  it('is told what was wrong with the first', async () => {
    const { server } = await serve();
    const cause = new Error('the office is closed');
    await expect(connect(server.url, { ticket: () => Promise.reject(cause) })).rejects.toMatchObject({
      code: 'STET_ERR_CONNECTION',
      retryable: true,
      cause,
    });
    await expect(connect(server.url, { WebSocket, ticket: async () => 'unknown' })).rejects.toMatchObject({
      code: 'STET_ERR_UNAUTHORIZED',
    });
    await expect(connect(server.url, { ticket: async () => 'no token' })).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
    });
    const never = () => new Promise<string>(() => {});
    await expect(connect(server.url, { ticket: never, connectTimeoutMs: 30 })).rejects.toMatchObject({
      message: expect.stringContaining('within 30 ms'),
    });
  });
});

// The package `ws` says how; the sockets of platforms keep it to themselves.
describe('an upgrade that is refused', () => {
  it.each([
    [401, 'STET_ERR_UNAUTHORIZED', false],
    [403, 'STET_ERR_FORBIDDEN_ORIGIN', false],
    [404, 'STET_ERR_NOT_FOUND', false],
    [429, 'STET_ERR_TOO_MANY_SOCKETS', true],
    [503, 'STET_ERR_CONNECTION', true],
  ])('with %i is %s', async (status, code, retryable) => {
    const http = createHttpServer();
    http.on('upgrade', (_, socket) => socket.end(`HTTP/1.1 ${status} No\r\nConnection: close\r\n\r\n`));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => http.close());
    const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}`;
    await expect(connect(url, { WebSocket })).rejects.toMatchObject({ code, retryable });
  });
});
