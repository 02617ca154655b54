import { randomBytes } from 'node:crypto';
import { fc } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { type Harness, serve } from './support/harness.js';
import { RawConnection, upgradeRequest } from './support/raw-http.js';

/** `STET_FUZZ_RUNS=100000 npx vitest run packages/server/test/fuzz.test.ts` looks longer. */
const numRuns = Number(process.env.STET_FUZZ_RUNS ?? 40);
const timeout = Math.max(60_000, numRuns * 2_000);

const secret = 'fuzz-'.padEnd(32, 'k');
const keys = [{ name: 'fuzz', key: secret }];
const deadlines = { headersTimeoutMs: 300, requestTimeoutMs: 900, keepAliveMs: 200, closeHandshakeMs: 200 };

/** A server of which every answer is below 500, and which is whole and empty after whatever was sent to it. */
async function hardy(): Promise<Harness & { proveWhole(): Promise<void> }> {
  const harness = await serve({ contextLength: 512 }, { ...deadlines, resumeWindowMs: 50 }, { keys });
  const proveWhole = async () => {
    expect((await fetch(`${harness.server.url}/health`)).status).toBe(200);
    const failures = harness.logged.filter(({ message }) => message.includes('unexpectedly'));
    expect(failures).toEqual([]);
    await harness.idle();
  };
  return { ...harness, proveWhole };
}

const paths = [
  '/health',
  '/ready',
  '/metrics',
  '/openapi.json',
  '/v1/tickets',
  '/v1/models',
  '/v1/models/x',
  '/v1/completions',
  '/v1/chat/completions',
  '/v1/stream',
];

const noise = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1'));
const word = fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom(...'abcXYZ019-_.~!%') });
const path = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...paths) },
  fc.tuple(fc.constantFrom(...paths), noise).map(([known, more]) => `${known}?${more.replace(/[\s]/g, '+')}`),
  fc.webPath().map((text) => text || '/'),
  fc.constantFrom('*', '//', '/..', '/%', '/%00', `/${'a'.repeat(9_000)}`, 'http://x/health', 'x'),
);
const headerValue = fc.oneof(
  word,
  noise,
  fc.constantFrom(
    ...['', ' ', 'chunked', 'gzip', 'close', 'keep-alive', 'Upgrade', 'websocket', 'h2c', '100-continue', '0', '-1'],
    ...['1e9', '99999999999999999999', 'application/json', 'text/plain; charset=latin1', 'http://localhost', 'null'],
    ...[
      `Bearer ${secret}`,
      `Bearer ${'x'.repeat(5_000)}`,
      'Bearer',
      'stet.v1',
      'stet.v1, stet.ticket.',
      'stet.ticket.x',
    ],
  ),
);
const headerName = fc.oneof(
  fc.constantFrom(
    ...['Host', 'Content-Length', 'Transfer-Encoding', 'Content-Type', 'Connection', 'Upgrade', 'Expect', 'Origin'],
    ...['Authorization', 'Access-Control-Request-Method', 'Sec-WebSocket-Key', 'Sec-WebSocket-Version', 'TE', 'Cookie'],
    ...['Sec-WebSocket-Protocol', 'Sec-WebSocket-Extensions', 'Content-Encoding', 'X-Forwarded-For', 'Accept'],
  ),
  word,
);
const headerOf = (name: string, ...values: string[]) => fc.constantFrom(...values).map((value) => `${name}: ${value}`);
/** What the server looks at in a handshake, with values that nearly are what it wants. */
const handshakeHeader = fc.oneof(
  headerOf(
    'Sec-WebSocket-Protocol',
    'stet.v1',
    'stet.v1, stet.ticket.',
    'stet.ticket.x',
    'stet.v2',
    ',',
    'a b',
    '\xff',
  ),
  headerOf('Sec-WebSocket-Version', '13', '8', '', 'x'),
  headerOf('Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA==', 'x', ''),
  headerOf(
    'Sec-WebSocket-Extensions',
    'permessage-deflate',
    'permessage-deflate; client_max_window_bits=99',
    ';;',
    'x;y="',
  ),
  headerOf('Authorization', `Bearer ${secret}`, `Bearer ${'x'.repeat(5_000)}`, 'Bearer', 'Basic eDp4', '', '\x80'),
  headerOf('Origin', 'http://localhost', 'https://evil.org', 'null', '', 'http://', 'file://', 'http://[', '\xe9'),
);
/** The same of any request. */
const likelyHeader = fc.oneof(
  handshakeHeader,
  headerOf('Content-Length', '0', '5', '1e9', '-1', '99999999999999999999', '5, 5', '+5'),
  headerOf('Transfer-Encoding', 'chunked', 'gzip, chunked', 'chunked, chunked', 'identity', 'x'),
  headerOf('Content-Type', 'application/json', 'application/json; charset=latin1', 'text/plain', ';', ''),
  headerOf('Content-Encoding', 'gzip', 'identity', 'x'),
  headerOf('Connection', 'close', 'keep-alive', 'Upgrade', 'x, y'),
  headerOf('Upgrade', 'websocket', 'h2c', 'WebSocket', ''),
  headerOf('Expect', '100-continue', 'x'),
  headerOf('Host', 'evil.org', '', 'a b'),
);
const anyHeader = fc.tuple(headerName, headerValue).map(([name, value]) => `${name}: ${value}`);
const header = fc.oneof({ weight: 3, arbitrary: likelyHeader }, anyHeader);
const headers = fc.array(fc.oneof({ weight: 9, arbitrary: header }, noise), { maxLength: 8 });
const authorized = fc.constantFrom([], [`Authorization: Bearer ${secret}`]);

const request = fc
  .record({
    method: fc.oneof(fc.constantFrom('GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'CONNECT', 'TRACE'), word),
    path,
    version: fc.constantFrom('1.1', '1.1', '1.1', '1.0', '2.0', '9'),
    authorized,
    headers,
    body: fc.oneof(fc.constant(''), noise, fc.json(), fc.constant('5\r\nhello\r\n0\r\n\r\n'), fc.constant('zz\r\n')),
    framed: fc.boolean(),
  })
  .map(({ method, path: target, version, authorized: shown, headers: more, body, framed }) => {
    const length = framed ? [`Content-Length: ${Buffer.byteLength(body)}`] : [];
    const lines = [`${method} ${target} HTTP/${version}`, 'Host: localhost', ...shown, ...length, ...more];
    return `${lines.join('\r\n')}\r\n\r\n${body}`;
  });

describe('whatever is sent for HTTP', () => {
  it('is answered below 500 or dropped in time, and harms nobody', { timeout }, async () => {
    const { server, proveWhole } = await hardy();
    const conversation = fc.array(fc.oneof({ weight: 6, arbitrary: request }, noise), { minLength: 1, maxLength: 3 });
    const batch = fc.array(conversation, { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(batch, async (conversations) => {
        const answers = await Promise.all(
          conversations.map(async (requests) => {
            const connection = await RawConnection.open(server.url);
            for (const text of requests) connection.write(text);
            return connection.all();
          }),
        );
        for (const answer of answers) expectAnswers(answer);
        await proveWhole();
      }),
      { numRuns },
    );
  });

  it('is refused below 500 when it is a body that no route knows', { timeout }, async () => {
    const { server, proveWhole } = await hardy();
    const field = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom(-1, 0, 1, 1e308, '', 'a', [], {}, null, true),
    );
    const fields = fc.dictionary(
      fc.constantFrom(
        ...['model', 'messages', 'prompt', 'stream', 'stream_options', 'n', 'logprobs', 'top_logprobs', 'echo', 'stop'],
        ...[
          'max_tokens',
          'max_completion_tokens',
          'temperature',
          'logit_bias',
          'seed',
          'tools',
          'deterministic',
          '__proto__',
        ],
      ),
      field,
      { maxKeys: 6 },
    );
    const usual = fc.constantFrom(
      {},
      { messages: [{ role: 'user', content: 'x' }] },
      { prompt: 'x' },
      { prompt: [1, 2] },
    );
    const mutated = fc.tuple(usual, fields).map(([base, more]) => JSON.stringify({ max_tokens: 4, ...base, ...more }));
    const body = fc.oneof({ weight: 5, arbitrary: mutated }, fc.json(), noise);
    const target = fc.constantFrom('/v1/chat/completions', '/v1/completions', '/v1/tickets', '/health');
    await fc.assert(
      fc.asyncProperty(target, fc.array(body, { minLength: 1, maxLength: 6 }), async (to, bodies) => {
        const send = async (text: string) => {
          const answer = await fetch(server.url + to, {
            method: 'POST',
            headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' },
            body: text,
          });
          return { status: answer.status, text: await answer.text() };
        };
        for (const { status, text } of await Promise.all(bodies.map(send))) {
          expect(status, text).toBeLessThan(500);
          if (status >= 400) expect(JSON.parse(text)).toMatchObject({ error: { message: expect.any(String) } });
        }
        await proveWhole();
      }),
      { numRuns },
    );
  });
});

describe('whatever is sent for a socket', () => {
  it('is no crash, no leak and no 500 in the handshake or after it', { timeout }, async () => {
    const { server, proveWhole } = await hardy();
    const added = fc.array(fc.oneof({ weight: 4, arbitrary: handshakeHeader }, header), { maxLength: 3 });
    const handshake = fc.tuple(authorized, added).map(([shown, more]) => {
      // What is added stands in place of what is usual.
      const names = more.map((line) => line.split(':')[0]!.toLowerCase());
      const lines = upgradeRequest().trimEnd().split('\r\n');
      const usual = lines.filter((line) => !names.includes(line.split(':')[0]!.toLowerCase()));
      return `${[...usual, ...shown, ...more].join('\r\n')}\r\n\r\n`;
    });
    const after = fc.array(fc.oneof(frameBytes, fc.uint8Array({ maxLength: 64 })), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(handshake, after), { minLength: 1, maxLength: 4 }), async (attempts) => {
        const answers = await Promise.all(
          attempts.map(async ([text, frames]) => {
            const connection = await RawConnection.open(server.url);
            connection.write(text);
            for (const bytes of frames) connection.write(bytes);
            connection.socket.end();
            return connection.all();
          }),
        );
        for (const answer of answers) expectAnswers(answer.split('HTTP/1.1 101')[0]!);
        await proveWhole();
      }),
      { numRuns },
    );
    expect(server.stats().sockets).toBe(0);
  });

  it('is answered frame by frame, also to those who resume and give credit, and ends with the socket', {
    timeout,
  }, async () => {
    const { connect, proveWhole } = await hardy();
    const value = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(-1, 0, 1, 4, 1e308, 'a', [], {}, null, true));
    const fields = fc.dictionary(
      fc.constantFrom(
        ...[
          'id',
          'prompt',
          'maxTokens',
          'seed',
          'stop',
          'messages',
          'logitBias',
          'promptTokens',
          't',
          'logprobs',
          'model',
        ],
        ...['deterministic', 'provisional', 'priority', 'credit', 'after', 'hash', 'stream', 'n', '__proto__'],
      ),
      value,
      { maxKeys: 4 },
    );
    const type = fc.constantFrom('generate', 'generate', 'cancel', 'ping', 'resume', 'credit', 'constructor');
    const base = fc.record({ type, id: fc.constantFrom('f', 'g', 'h'), prompt: fc.string() });
    const frame = fc.tuple(base, fields).map(([first, more]) => JSON.stringify({ maxTokens: 2, ...first, ...more }));
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { minLength: 1, maxLength: 20 }), async (frames) => {
        const client = await connect('stet.v1', { headers: { Authorization: `Bearer ${secret}` } });
        for (const text of frames) client.send(text);
        client.send({ type: 'ping', t: 0.5 });
        await client.until(() => client.frames.some((one) => one.type === 'pong' && one.t === 0.5), 'the pong');
        expect(client.frames.filter((one) => one.type === 'error' && one.code === 'STET_ERR_INTERNAL')).toEqual([]);
        client.socket.close();
        await client.closed;
        await proveWhole();
      }),
      { numRuns },
    );
  });
});

/** A frame of WebSocket: well formed, or nearly. */
const frameBytes: fc.Arbitrary<Uint8Array> = fc
  .record({
    first: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(0x81, 0x01, 0x80, 0x89, 0x8a, 0x82) },
      fc.nat({ max: 255 }),
    ),
    isMasked: fc.constantFrom(true, true, true, false),
    length: fc.constantFrom('true', 'true', 'true', 'short', 'long', 'huge'),
    payload: fc.oneof(
      fc.constantFrom('{"type":"ping","t":1}', '{"type":"generate","id":"a","prompt":"p","maxTokens":3}', '{'),
      noise,
    ),
  })
  .map(({ first, isMasked, length, payload }) => {
    const body = Buffer.from(payload, 'latin1').subarray(0, 120);
    const claimed = { true: body.length, short: Math.max(0, body.length - 3), long: 125, huge: 127 }[length];
    const head = [first, (isMasked ? 0x80 : 0) | claimed];
    if (length === 'huge') head.push(0, 0, 0, 1, 0, 0, 0, 0);
    if (!isMasked) return Buffer.concat([Buffer.from(head), body]);
    const mask = randomBytes(4);
    return Buffer.concat([Buffer.from(head), mask, body.map((byte, index) => byte ^ mask[index % 4]!)]);
  });

/** Every answer in what a server sent is of HTTP and none of its fault. */
function expectAnswers(text: string): void {
  if (text !== '') expect(text).toMatch(/^HTTP\/1\.1 \d{3} /);
  const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) => Number(status));
  for (const status of statuses) expect(status, text).toBeLessThan(500);
}
