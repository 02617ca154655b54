import { createServer, type StetServer } from '@stet/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { waitFor } from './support/harness.js';
import { RawConnection } from './support/raw-http.js';
import { engineCalling } from './support/scripted-calls.js';

const MAX_BYTES = 2_000_000;
let server: StetServer;
const seen: object[] = [];

beforeAll(async () => {
  const engine = engineCalling(async (params) => {
    seen.push(params);
    return { echo: params };
  });
  server = await createServer({
    ...{
      engine,
      port: 0,
      limits: { drainMs: 0, maxBodyBytes: MAX_BYTES, headersTimeoutMs: 300, requestTimeoutMs: 500 },
    },
  });
});

afterAll(() => server.close());

function post(body: string | Uint8Array | ReadableStream, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${server.url}/v1/completions`, {
    ...{ method: 'POST', headers: { 'Content-Type': 'application/json', ...headers } },
    ...({ body, duplex: 'half' } as object),
  });
}

/** A body of so many bytes that is JSON. */
function padded(bytes: number): string {
  return `{"prompt":"${'x'.repeat(bytes - 13)}"}`;
}

describe('the body of a request', () => {
  it.each([
    'application/json',
    'Application/JSON; charset=UTF-8',
    'application/json;charset="utf-8"',
    'application/vnd.stet+json',
  ])('is taken as %s', async (type) => {
    const response = await post('{"prompt":"é"}', { 'Content-Type': type });
    expect(await response.json()).toEqual({ echo: { prompt: 'é' } });
  });

  it.each([
    { 'Content-Type': 'text/plain' },
    { 'Content-Type': 'application/x-www-form-urlencoded' },
    { 'Content-Type': 'application/json; charset=latin1' },
    { 'Content-Type': 'application/jsonp' },
    { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' },
  ])('is refused with 415 as %j', async (headers) => {
    const response = await post('{"prompt":"a"}', headers as Record<string, string>);
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error: { code: 'STET_ERR_BAD_REQUEST' } });
  });

  it.each([
    ['no JSON', '{"prompt":'],
    ['nothing', ''],
    ['an array', '[]'],
    ['null', 'null'],
    ['a string', '"canary"'],
    ['two values', '{} {}'],
    ['no UTF-8', Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d)],
    ['deep nesting without an end', '['.repeat(1_000_000)],
    ['deep nesting', '['.repeat(500_000) + ']'.repeat(500_000)],
  ])('is refused with 400 where it is %s', async (_, body) => {
    const response = await post(body);
    expect(response.status).toBe(400);
    expect(await response.text()).not.toContain('canary');
  });

  it('may be as long as the limit, and not a byte longer, announced or not', async () => {
    const stream = (text: string) => new Blob([text]).stream();
    expect((await post(padded(MAX_BYTES))).status).toBe(200);
    expect((await post(stream(padded(MAX_BYTES)))).status).toBe(200);
    expect((await post(padded(MAX_BYTES + 1))).status).toBe(413);
    expect((await post(stream(padded(MAX_BYTES + 1)))).status).toBe(413);
  });

  it('may name its fields like those of every object', async () => {
    const response = await post('{"prompt":"a","__proto__":{"stream":true},"constructor":1,"toString":2}');
    expect(response.status).toBe(200);
    expect(Object.keys(seen.at(-1)!)).toEqual(['prompt', '__proto__', 'constructor', 'toString']);
  });

  it('must come in time', async () => {
    const connection = await RawConnection.open(server.url);
    connection.write(
      'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"prompt"',
    );
    expect(await connection.all()).toMatch(/^HTTP\/1.1 408 /);
  });

  it('is nobody\u2019s where the client is gone before its end', async () => {
    const before = seen.length;
    const connection = await RawConnection.open(server.url);
    connection.write(
      'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"prompt"',
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    connection.socket.destroy();
    await waitFor(() => server.stats().streams === 0, 'nothing to run');
    expect((await post('{"prompt":"next"}')).status).toBe(200);
    expect(seen.length).toBe(before + 1);
  });
});
