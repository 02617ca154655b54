import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { StetError, type StetErrorCode } from '@stet/backend';
import { createServer, type ServerLimits, type StetServer } from '@stet/server';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { waitFor } from './support/harness.js';
import { chunkOf, engineCalling, type ScriptedCall, sleep } from './support/scripted-calls.js';
import { openAiClient } from './support/tales-server.js';

const servers: StetServer[] = [];
const logged: { fields: Record<string, unknown>; message: string }[] = [];

afterEach(async () => {
  logged.length = 0;
  for (const server of servers.splice(0)) {
    await server.close();
    expect(server.stats().streams).toBe(0);
  }
});

async function serve(call: ScriptedCall, limits: Partial<ServerLimits> = {}): Promise<StetServer> {
  const log = (fields: Record<string, unknown>, message: string) => void logged.push({ fields, message });
  const server = await createServer({
    ...{ engine: engineCalling(call), port: 0, limits: { drainMs: 0, ...limits } },
    logger: { info: log, warn: log, error: log },
  });
  servers.push(server);
  return server;
}

const params = { model: 'scripted', prompt: 'canary-prompt' };

/** The error of a request, and how often the client sent it. */
async function failing(error: unknown, maxRetries: number): Promise<{ thrown: unknown; calls: number }> {
  let calls = 0;
  const { url } = await serve(() => {
    calls++;
    return Promise.reject(error);
  });
  // The client waits as long as it is told, and tests do not.
  const quick: typeof fetch = async (...request) => {
    const response = await fetch(...request);
    const headers = new Headers(response.headers);
    if (headers.has('retry-after-ms')) headers.set('retry-after-ms', '1');
    return new Response(response.body, { status: response.status, headers });
  };
  const client = openAiClient(url, { maxRetries, fetch: quick });
  const thrown = await client.completions.create(params).catch((caught: unknown) => caught);
  return { thrown, calls };
}

describe('errors of the engine', () => {
  const known: [code: StetErrorCode, status: number, calls: number][] = [
    ['STET_ERR_BAD_REQUEST', 400, 1],
    ['STET_ERR_CONTEXT_LENGTH', 400, 1],
    ['STET_ERR_KV_CAPACITY', 400, 1],
    ['STET_ERR_BAD_CHAT_TEMPLATE', 400, 1],
    ['STET_ERR_QUEUE_FULL', 429, 2],
    ['STET_ERR_DEVICE_LOST', 503, 2],
    ['STET_ERR_ENGINE_CLOSED', 503, 2],
    ['STET_ERR_BACKEND_FAILED', 500, 2],
    ['STET_ERR_OUT_OF_MEMORY', 500, 1],
  ];

  it.each(known)(
    '%s has the status %i and is sent %i times by a client that tries twice',
    async (code, status, calls) => {
      const { thrown, calls: sent } = await failing(new StetError(code, 'n must be other'), 1);
      expect(thrown).toBeInstanceOf(OpenAI.APIError);
      expect(thrown).toMatchObject({ status, code, param: 'n', requestID: expect.any(String) });
      expect(sent).toBe(calls);
    },
  );

  it('that are none become 500 without a word about the cause, and are not tried again', async () => {
    const { thrown, calls } = await failing(new TypeError('canary-cause'), 1);
    expect(thrown).toMatchObject({ status: 500, code: 'STET_ERR_INTERNAL' });
    expect(String(thrown)).not.toContain('canary-cause');
    expect(logged.some(({ fields }) => String(fields.err).includes('canary-cause'))).toBe(true);
    expect(calls).toBe(1);
  });

  it('say when to come back', async () => {
    const { url } = await serve(() => Promise.reject(new StetError('STET_ERR_QUEUE_FULL', 'the queue is full')));
    const response = await post(url, params);
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(response.headers.get('retry-after-ms')).toBe('1000');
  });

  it.each([
    [new StetError('STET_ERR_BACKEND_FAILED', 'the device failed'), 'STET_ERR_BACKEND_FAILED'],
    [new RangeError('canary-cause'), 'STET_ERR_INTERNAL'],
  ])('in mid-stream reach the client as an error after what came before: %s', async (error, code) => {
    const { url } = await serve(async () =>
      (async function* () {
        yield chunkOf('a');
        yield chunkOf('b');
        throw error;
      })(),
    );
    const texts: string[] = [];
    const read = (async () => {
      for await (const chunk of await openAiClient(url).completions.create({ ...params, stream: true }))
        texts.push(chunk.choices[0]!.text);
    })();
    await expect(read).rejects.toBeInstanceOf(OpenAI.APIError);
    await expect(read).rejects.toMatchObject({ code });
    expect(texts).toEqual(['a', 'b']);
    const raw = await (await post(url, { ...params, stream: true })).text();
    expect(raw).not.toContain('[DONE]');
    expect(raw).not.toContain('canary-cause');
    expect(JSON.parse(raw.split('\n\n').at(-2)!.slice('data: '.length))).toMatchObject({ error: { code } });
  });
});

describe('a stream of server-sent events', () => {
  it('says that it lives while nothing is committed', async () => {
    const { url } = await serve(
      async (_, signal) =>
        (async function* () {
          await sleep(150, signal);
          yield chunkOf('late');
        })(),
      { ssePingMs: 20 },
    );
    const raw = await (await post(url, { ...params, stream: true })).text();
    expect(raw.split(': ping\n\n').length).toBeGreaterThan(2);
    const chunks = [];
    for await (const chunk of await openAiClient(url).completions.create({ ...params, stream: true }))
      chunks.push(chunk);
    expect(chunks).toEqual([chunkOf('late')]);
  });

  it('is not read from the engine while the client does not read, and is cut off in the end', async () => {
    let produced = 0;
    let freed = false;
    const { url } = await serve(
      async () =>
        (async function* () {
          try {
            for (;;) {
              produced++;
              yield chunkOf('x'.repeat(20_000));
            }
          } finally {
            freed = true;
          }
        })(),
      { slowReaderMs: 400 },
    );
    const socket = unreadStream(url);
    await waitFor(() => produced > 0, 'a chunk');
    let last = -1;
    await waitFor(() => {
      const isStill = produced === last;
      last = produced;
      return isStill || freed;
    }, 'the engine to be left alone');
    // What the kernel's buffers of a connection take, and little more.
    expect(produced * 20_000).toBeLessThan(32 * 1024 * 1024);
    await waitFor(() => freed, 'the end of the request');
    expect(servers[0]!.stats().streams).toBe(0);
    socket.destroy();
  });

  it('ends in the engine at once when the client is gone', async () => {
    let reason: unknown;
    const { url } = await serve(async (_, signal) =>
      (async function* () {
        try {
          yield chunkOf('a');
          await sleep(60_000, signal);
        } catch (error) {
          reason = error;
          throw error;
        }
      })(),
    );
    const controller = new AbortController();
    const response = await post(url, { ...params, stream: true }, controller.signal);
    await response.body!.getReader().read();
    controller.abort();
    await waitFor(() => reason !== undefined, 'the abort');
    expect(reason).toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(logged.filter(({ message }) => message.includes('unexpectedly'))).toEqual([]);
  });
});

describe('a server that goes away', () => {
  it('lets answers end that end in time, and refuses new ones', async () => {
    const server = await serve(
      async (_, signal) => {
        await sleep(300, signal);
        return { done: true };
      },
      { drainMs: 20_000 },
    );
    const running = post(server.url, params);
    await waitFor(() => server.stats().streams === 1, 'the request');
    // A connection that is open already can still ask.
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    await once(socket, 'connect');
    let heard = '';
    socket.on('data', (data) => {
      heard += data.toString();
    });
    const body = JSON.stringify(params);
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    // Its head must have arrived: idle connections are closed.
    await sleep(50, new AbortController().signal);
    const closed = server.close();
    socket.write(body);
    await waitFor(() => heard.includes('STET_ERR_SHUTTING_DOWN'), 'the refusal');
    expect(heard).toMatch(/^HTTP\/1.1 503 /);
    expect(heard.toLowerCase()).toContain('retry-after: 5');
    expect(await (await running).json()).toEqual({ done: true });
    await closed;
  });

  it('cuts off at its deadline what still runs: 503, or an error in the stream', async () => {
    const server = await serve(
      async (body, signal) => {
        if (!('stream' in body)) {
          await sleep(60_000, signal);
          return {};
        }
        return (async function* () {
          yield chunkOf('a');
          await sleep(60_000, signal);
        })();
      },
      { drainMs: 50 },
    );
    const whole = post(server.url, params);
    const stream = await post(server.url, { ...params, stream: true });
    await waitFor(() => server.stats().streams === 2, 'both requests');
    await server.close();
    expect((await whole).status).toBe(503);
    const raw = await stream.text();
    expect(raw).toContain('STET_ERR_SHUTTING_DOWN');
    expect(raw).not.toContain('[DONE]');
  });
});

describe('a server that goes away and a client that does not read', () => {
  it('part when the error has had its time', async () => {
    let produced = 0;
    const server = await serve(
      async () =>
        (async function* () {
          for (;;) {
            produced++;
            yield chunkOf('x'.repeat(20_000));
          }
        })(),
      { slowReaderMs: 3_600_000, closeHandshakeMs: 100 },
    );
    const socket = unreadStream(server.url);
    await waitFor(() => produced > 0, 'a chunk');
    await server.close();
    expect(server.stats().streams).toBe(0);
    socket.destroy();
  });
});

describe('the log', () => {
  it('names the request that was refused and never what was in it', async () => {
    const { url } = await serve(() => Promise.reject(new StetError('STET_ERR_BAD_REQUEST', 'prompt is wrong')));
    const response = await post(url, params);
    const requestId = response.headers.get('x-request-id');
    expect(logged.find(({ fields }) => fields.requestId === requestId)).toMatchObject({
      fields: { code: 'STET_ERR_BAD_REQUEST', status: 400 },
    });
    expect(JSON.stringify(logged)).not.toContain('canary-prompt');
  });
});

/** A client that asks for a stream and reads nothing of it. */
function unreadStream(url: string): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const body = JSON.stringify({ ...params, stream: true });
  socket.on('error', () => {});
  socket.pause();
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  return socket;
}

function post(url: string, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}
