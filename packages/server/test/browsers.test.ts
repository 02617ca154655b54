import { createServer } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { serve } from './support/harness.js';
import { parseAnswers, RawConnection, upgradeRequest } from './support/raw-http.js';
import { ScriptedEngine } from './support/scripted-engine.js';

const allowedOrigins = ['https://app.example.org'];
const keys = [{ name: 'alice', key: 'alice-'.padEnd(32, '1') }];
const authorized = { Authorization: `Bearer ${keys[0]!.key}` };

const security = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

function expectSecure(headers: Headers): void {
  for (const [name, value] of Object.entries(security)) expect([name, headers.get(name)]).toEqual([name, value]);
  for (const name of ['server', 'x-powered-by', 'set-cookie', 'access-control-allow-credentials'])
    expect([name, headers.get(name)]).toEqual([name, null]);
}

describe('a page of an allowed origin', () => {
  const ask = (url: string, init: RequestInit & { headers?: Record<string, string> } = {}) =>
    fetch(url, { ...init, headers: { Origin: 'https://app.example.org', ...init.headers } });

  it('may read answers and errors, and what they say about retries, without credentials', async () => {
    const { server } = await serve({}, {}, { allowedOrigins, keys });
    const answers = await Promise.all([
      ask(`${server.url}/health`),
      ask(`${server.url}/v1/tickets`, { method: 'POST', headers: authorized }),
      ask(`${server.url}/v1/tickets`, { method: 'POST' }),
      ask(`${server.url}/nowhere`),
      ask(`${server.url}/health`, { method: 'DELETE' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 401, 404, 405]);
    for (const { headers } of answers) {
      expectSecure(headers);
      expect(headers.get('access-control-allow-origin')).toBe('https://app.example.org');
      expect(headers.get('access-control-expose-headers')).toBe(
        'X-Request-Id, Retry-After, retry-after-ms, x-should-retry',
      );
      expect(headers.get('vary')).toBe('Origin');
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it('gets its preflight answered without a key', async () => {
    const { server } = await serve({}, {}, { allowedOrigins, keys });
    const answer = await ask(`${server.url}/v1/tickets`, {
      method: 'OPTIONS',
      headers: { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization' },
    });
    expect([answer.status, await answer.text()]).toEqual([204, '']);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      allow: 'POST, OPTIONS',
      'access-control-allow-origin': 'https://app.example.org',
      'access-control-allow-methods': 'POST, OPTIONS',
      'access-control-allow-headers': 'Authorization, Content-Type, *',
      'access-control-max-age': '600',
    });
    expectSecure(answer.headers);
    const unknown = await ask(`${server.url}/nowhere`, { method: 'OPTIONS' });
    expect([unknown.status, unknown.headers.get('access-control-allow-methods')]).toEqual([404, null]);
  });
});

describe('a page of another origin', () => {
  it.each([
    ['GET', '/health', {}],
    ['OPTIONS', '/v1/tickets', { 'Access-Control-Request-Method': 'POST' }],
    ['POST', '/v1/tickets', authorized],
    ['POST', '/v1/tickets', {}],
  ])('is refused with 403, whatever it shows: %s %s', async (method, path, headers) => {
    for (const options of [{ allowedOrigins, keys }, { keys }, {}]) {
      const { server } = await serve({}, {}, options);
      for (const origin of ['https://evil.example.org', 'https://app.example.org.evil.org', 'null']) {
        const answer = await fetch(server.url + path, { method, headers: { Origin: origin, ...headers } });
        expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([403, null]);
        expect(await answer.json()).toMatchObject({ error: { code: 'STET_ERR_FORBIDDEN_ORIGIN' } });
        expectSecure(answer.headers);
      }
    }
  });

  it('may be one of this machine while there is no list, with keys and without', async () => {
    for (const options of [{ keys }, {}]) {
      const { server, connect } = await serve({}, {}, options);
      const origin = 'http://localhost:5173';
      const answer = await fetch(`${server.url}/health`, { headers: { Origin: origin } });
      expect(answer.headers.get('access-control-allow-origin')).toBe(origin);
      await connect('stet.v1', { origin, headers: authorized });
      await expect(connect('stet.v1', { origin: 'https://x.org', headers: authorized })).rejects.toThrow('403');
    }
  });
});

describe('the list of origins', () => {
  it('takes what browsers send, and refuses what none ever does', async () => {
    const listen = (origin: string) =>
      createServer({ engine: new ScriptedEngine(), port: 0, allowedOrigins: [origin] });
    for (const origin of ['https://a.org', 'http://a.org:8080', 'http://[::1]:3000', 'chrome-extension://abc', 'null'])
      await (await listen(origin)).close();
    for (const origin of ['https://a.org/', 'https://a.org/x', 'a.org', '*', 'https://*.a.org', 'https://A.org', ''])
      await expect(listen(origin)).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
    await expect(listen('https://a.org:443')).rejects.toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
  });
});

describe('an answer', () => {
  it('forbids to store, guess, run and frame it, also when it is a refusal on the bare connection', async () => {
    const { server } = await serve({}, { maxHeaderBytes: 2048 }, { allowedOrigins, keys });
    const requests = [
      [upgradeRequest(), 401],
      [upgradeRequest(['Origin: https://evil.org']), 403],
      [upgradeRequest([], '/v1/other'), 404],
      ['nonsense\r\n\r\n', 400],
      ['GET /health HTTP/1.1\r\n\r\n', 400],
      ['GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: miracles\r\n\r\n', 417],
      [`GET /health HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(3000)}\r\n\r\n`, 431],
      ['POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ] as const;
    for (const [request, status] of requests) {
      const connection = await RawConnection.open(server.url);
      const [answer, ...more] = parseAnswers(await connection.write(request).all());
      expect([request, answer?.status, more.length]).toEqual([request, status, 0]);
      expectSecure(answer!.headers);
      expect(JSON.parse(answer!.body)).toMatchObject({ error: { code: expect.stringMatching(/^STET_ERR_/) } });
      expect(answer!.body).not.toMatch(/node:|\n\s+at |\.[jt]s\b/);
    }
  });

  it('is 500 without a trace of the reason when a handler fails', async () => {
    const { server, engine, logged } = await serve();
    Object.defineProperty(engine, 'info', {
      get: () => {
        throw new Error('REASON');
      },
    });
    const answer = await fetch(`${server.url}/ready`);
    expect(answer.status).toBe(500);
    const text = await answer.text();
    expect(text).toContain(answer.headers.get('x-request-id')!);
    expect(text).not.toMatch(/REASON|at /);
    expect(logged.at(-1)!.fields.requestId).toBe(answer.headers.get('x-request-id'));
  });
});
