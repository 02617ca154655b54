import { describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { CrossOrigin } from '../src/http/cors.js';
import { serve, waitFor } from './support/harness.js';

describe('the subprotocol', () => {
  it('is stet.v1, also among others', async () => {
    const { connect } = await serve();
    expect((await connect('stet.v1')).socket.protocol).toBe('stet.v1');
    expect((await connect(['other.v1', 'stet.v1'])).socket.protocol).toBe('stet.v1');
  });

  it('may be left out', async () => {
    const { connect } = await serve();
    const client = await connect([]);
    expect(client.socket.protocol).toBe('');
    expect((await client.generate('a')).end!.type).toBe('done');
  });

  it.each([['stet.v2'], ['graphql-ws']])('closes the socket with 4400 when it is %s', async (protocol) => {
    const { connect, server } = await serve();
    const client = await connect(protocol);
    client.send({ type: 'generate', id: 'a', prompt: 'a' });
    expect(await client.closed).toEqual({ code: 4400, reason: 'STET_ERR_UNSUPPORTED' });
    expect(client.frames).toEqual([]);
    await waitFor(() => server.stats().sockets === 0, 'the socket to be forgotten');
  });
});

describe('compression', () => {
  it('is never agreed on', async () => {
    const { connect } = await serve();
    const client = await connect('stet.v1', { perMessageDeflate: true });
    expect(client.socket.extensions).toBe('');
  });
});

describe('the origin', () => {
  const origins = async (origin: string, allowedOrigins?: readonly string[]) => {
    const { connect } = await serve({}, {}, allowedOrigins === undefined ? {} : { allowedOrigins });
    return connect('stet.v1', { origin }).then(
      () => 'allowed',
      (error: Error) => error.message,
    );
  };

  it.each([['http://localhost:3000'], ['http://127.0.0.1'], ['http://127.8.8.8:1'], ['https://[::1]:8443']])(
    'may be a page of this machine: %s',
    async (origin) => {
      expect(await origins(origin)).toBe('allowed');
    },
  );

  it.each([
    ['https://example.org'],
    ['http://localhost.example.org'],
    ['http://127.0.0.1.example.org'],
    ['http://127.example.org'],
    ['null'],
    ['file://'],
    ['nonsense'],
  ])('is refused with 403 by default: %s', async (origin) => {
    expect(await origins(origin)).toContain('403');
  });

  it('must be on the list where there is one', async () => {
    const list = ['https://example.org', 'null'];
    expect(await origins('https://example.org', list)).toBe('allowed');
    expect(await origins('null', list)).toBe('allowed');
    expect(await origins('https://example.org.evil.org', list)).toContain('403');
    expect(await origins('http://localhost:3000', list)).toContain('403');
  });
});

describe('an upgrade elsewhere', () => {
  it('is answered with 404', async () => {
    const { server } = await serve();
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/other`, 'stet.v1');
    const error = await new Promise<Error>((resolve) => socket.once('error', resolve));
    expect(error.message).toContain('404');
  });
});

describe('a mistake of the server in an upgrade', () => {
  it('costs that connection alone, and is in the log', async () => {
    const { connect, logged } = await serve();
    const client = await connect();
    const running = client.generate('a', { maxTokens: 600 });
    const mistake = vi.spyOn(CrossOrigin.prototype, 'admits').mockImplementationOnce(() => {
      throw new Error('MISTAKE');
    });
    await expect(connect()).rejects.toThrow();
    expect(mistake).toHaveBeenCalledOnce();
    mistake.mockRestore();
    expect(logged.at(-1)).toMatchObject({ message: 'an upgrade failed unexpectedly' });
    expect((await running).end!.type).toBe('done');
    await connect();
  });
});
