import { connect } from 'node:net';
import { StetError } from '@stet/backend';
import { createServer } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';
import { parseAnswers, RawConnection } from './support/raw-http.js';
import { ScriptedEngine } from './support/scripted-engine.js';

describe('the HTTP routes', () => {
  it('say that the server lives and what it is ready to serve', async () => {
    const { server } = await serve();
    const health = await fetch(`${server.url}/health`);
    expect([health.status, health.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8']);
    expect(await health.json()).toEqual({ status: 'ok' });
    const ready = await fetch(`${server.url}/ready?verbose=1`);
    expect(ready.status).toBe(200);
    expect(await ready.json()).toEqual({
      status: 'ready',
      model: 'scripted',
      backend: 'none',
      fingerprint: 'scripted-1',
      numerics: 'scripted',
      guarantee: 'portable',
      selfTest: 'passed',
      contextLength: 1024,
      chatTemplate: 'none',
    });
    const head = await fetch(`${server.url}/health`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  it.each([
    ['GET', '/', 404, 'STET_ERR_NOT_FOUND', null],
    ['GET', '/health/', 404, 'STET_ERR_NOT_FOUND', null],
    ['GET', '/constructor', 404, 'STET_ERR_NOT_FOUND', null],
    ['GET', '//', 404, 'STET_ERR_NOT_FOUND', null],
    ['POST', '/health', 405, 'STET_ERR_METHOD_NOT_ALLOWED', 'GET, HEAD, OPTIONS'],
    ['DELETE', '/ready', 405, 'STET_ERR_METHOD_NOT_ALLOWED', 'GET, HEAD, OPTIONS'],
    ['POST', '/v1/stream', 405, 'STET_ERR_METHOD_NOT_ALLOWED', 'GET, HEAD, OPTIONS'],
    ['GET', '/v1/stream', 426, 'STET_ERR_BAD_REQUEST', null],
  ])('answer %s %s with %i', async (method, path, status, code, allow) => {
    const { server } = await serve();
    const response = await fetch(server.url + path, {
      method,
      ...(method === 'POST' && { body: 'x'.repeat(100_000) }),
    });
    expect([response.status, response.headers.get('allow')]).toEqual([status, allow]);
    expect(await response.json()).toMatchObject({
      error: { code, type: 'invalid_request_error', param: null, message: expect.any(String) },
    });
  });

  it('are answered to clients that offer HTTP/2 as an upgrade, also with a body', async () => {
    const { server, connect } = await serve();
    const offer = 'Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n';
    const requests = [
      [`GET /health HTTP/1.1\r\n${offer}\r\n`, 200],
      [`POST /v1/tickets HTTP/1.1\r\n${offer}Content-Length: 5\r\n\r\nhello`, 200],
      [`GET /v1/stream HTTP/1.1\r\n${offer}\r\n`, 426],
    ] as const;
    const connection = await RawConnection.open(server.url);
    for (const [index, [text]] of requests.entries()) {
      connection.write(text);
      await waitFor(() => connection.received.split('HTTP/1.1').length === index + 2, 'an answer');
    }
    connection.socket.end();
    const answers = parseAnswers(await connection.all());
    expect(answers.map(({ status }) => status)).toEqual(requests.map(([, status]) => status));
    await connect('stet.v1', { headers: { Upgrade: 'WebSocket' } });
  });

  it('survive bytes that are no HTTP', async () => {
    const { server } = await serve();
    const { hostname, port } = new URL(server.url);
    for (const bytes of [
      '\x00\x01\x02\r\n\r\n',
      'GET\r\n\r\n',
      'GET /v1/stream HTTP/1.1\r\nUpgrade: websocket\r\n\r\n',
    ]) {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      socket.end(bytes);
      await new Promise((resolve) => socket.once('close', resolve).resume());
    }
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  });
});

describe('listening', () => {
  it('is refused on a host that others can reach, because there are no keys', async () => {
    const engine = new ScriptedEngine();
    for (const host of ['0.0.0.0', '::', '192.168.1.1', 'example.org', '']) {
      const error = await createServer({ engine, host, port: 0 }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'STET_ERR_UNSUPPORTED', message: expect.stringContaining('loopback only') });
    }
  });

  it('says in the log that it is for this machine only', async () => {
    const { logged, server } = await serve();
    expect(logged[0]).toEqual({
      fields: { url: server.url },
      message: 'listening on loopback only, because there are no API keys',
    });
  });

  it('fails with a code on a port that is taken', async () => {
    const { server, engine } = await serve();
    const error = await createServer({ engine, port: Number(new URL(server.url).port) }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(StetError);
    expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION', message: expect.stringContaining('EADDRINUSE') });
  });
});

describe('the log', () => {
  it('never holds a prompt, an id or output', async () => {
    const { connect: open, logged, engine } = await serve({ textOf: () => 'OUTPUT' });
    const client = await open();
    await client.generate('SECRET-ID', { prompt: 'SECRET-PROMPT' });
    await client.refusalOf('SECRET-NONSENSE');
    client.send('SECRET'.repeat(300_000));
    await client.closed;
    expect(engine.stats().running).toBe(0);
    expect(logged.length).toBeGreaterThan(2);
    expect(JSON.stringify(logged)).not.toMatch(/SECRET|OUTPUT/);
  });
});
