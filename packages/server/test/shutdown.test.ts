import { connect as connectTcp } from 'node:net';
import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';

describe('closing the server', () => {
  it('closes idle sockets with 1001 at once', async () => {
    const { connect, server } = await serve({}, { drainMs: 60_000 });
    const client = await connect();
    await server.close();
    expect(await client.closed).toEqual({ code: 1001, reason: 'STET_ERR_SHUTTING_DOWN' });
  });

  it('lets running streams finish, takes no new ones, and then closes their socket with 1001', async () => {
    const { connect, server } = await serve({}, { drainMs: 60_000 });
    const client = await connect();
    const running = client.generate('a', { maxTokens: 900 });
    await client.until(() => client.frames.length > 2, 'frames');
    const closing = server.close();
    expect((await client.generate('b')).end).toMatchObject({
      code: 'STET_ERR_SHUTTING_DOWN',
      seq: 0,
      retryable: true,
    });
    await expect(connect()).rejects.toThrow();
    expect((await running).tokens).toHaveLength(900);
    expect(await client.closed).toMatchObject({ code: 1001 });
    await closing;
  });

  it('cuts off what still runs at the deadline with 1012 and frees it', async () => {
    const { connect, server, engine } = await serve({ contextLength: 10_000_000 }, { drainMs: 100 });
    const client = await connect();
    const running = client.generate('a', { maxTokens: 9_000_000 });
    await client.until(() => client.frames.length > 2, 'frames');
    await server.close();
    expect(engine.stats().running).toBe(0);
    expect((await running).end).toMatchObject({ code: 'STET_ERR_SHUTTING_DOWN', retryable: true });
    expect(await client.closed).toEqual({ code: 1012, reason: 'STET_ERR_SHUTTING_DOWN' });
  });

  it('does not wait for a client that answers nothing', async () => {
    const { connect, server } = await serve({ contextLength: 10_000_000 }, { drainMs: 0, closeHandshakeMs: 100 });
    const client = await connect();
    client.send({ type: 'generate', id: 'a', prompt: 'a', maxTokens: 9_000_000 });
    await client.until(() => client.frames.length > 2, 'frames');
    client.raw.pause();
    const start = performance.now();
    await server.close();
    expect(performance.now() - start).toBeLessThan(5000);
    client.raw.resume();
  });

  it('may be asked for twice, and leaves the engine running', async () => {
    const { server, engine } = await serve();
    const url = server.url;
    await Promise.all([server.close(), server.close()]);
    await server[Symbol.asyncDispose]();
    await expect(fetch(`${url}/health`)).rejects.toThrow();
    const events = engine.generate({ prompt: 'a', maxTokens: 2 });
    expect((await events.next()).value).toMatchObject({ type: 'accepted' });
    await events.return!();
  });

  it('answers with 503 over a connection that was opened before, while streams finish', async () => {
    const { connect, server } = await serve({ contextLength: 10_000_000 }, { drainMs: 60_000 });
    const client = await connect();
    client.send({ type: 'generate', id: 'a', prompt: 'a', maxTokens: 9_000_000 });
    await client.until(() => client.frames.length > 2, 'frames');
    const early = await Promise.all([0, 1, 2].map(() => openConnection(server.url)));
    const closing = server.close();
    const upgrade =
      'Upgrade: websocket\r\nConnection: Upgrade\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';
    const answers = await Promise.all([
      early[0]!('GET /ready HTTP/1.1\r\nHost: a\r\n\r\n'),
      early[1]!('GET /health HTTP/1.1\r\nHost: a\r\n\r\n'),
      early[2]!(`GET /v1/stream HTTP/1.1\r\nHost: a\r\n${upgrade}\r\n`),
    ]);
    expect(answers.map((answer) => answer.slice(9, 12))).toEqual(['503', '200', '503']);
    expect(answers[2]).toContain('Retry-After: 5');
    client.socket.terminate();
    await closing;
  });
});

/** Opens a bare connection; what is then written to it resolves to what the server answers first. */
async function openConnection(url: string): Promise<(text: string) => Promise<string>> {
  const { hostname, port } = new URL(url);
  const socket = connectTcp(Number(port), hostname);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  // The server sees the connection only once its event loop turns.
  await new Promise((resolve) => setTimeout(resolve, 50));
  return (text) =>
    new Promise((resolve) => {
      socket.once('data', (data) => resolve(String(data)));
      socket.write(text);
    });
}
