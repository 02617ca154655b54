import { createServer } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';
import { parseAnswers, RawConnection } from './support/raw-http.js';
import { engineCalling } from './support/scripted-calls.js';

const statusOf = (text: string) => parseAnswers(text).map(({ status }) => status);

describe('a connection that has shown no key', () => {
  it('may take only so long for its headers, however it trickles', async () => {
    const { server } = await serve({}, { headersTimeoutMs: 300, requestTimeoutMs: 5000 });
    const silent = await RawConnection.open(server.url);
    const trickling = (await RawConnection.open(server.url)).write('GET /health HTTP/1.1\r\nHost: a\r\n');
    const drip = setInterval(() => trickling.write('X: y\r\n'), 20);
    try {
      expect(statusOf(await trickling.all())).toEqual([408]);
      expect(statusOf(await silent.all())).toEqual([408]);
    } finally {
      clearInterval(drip);
    }
  });

  it('may take only so long for its body', async () => {
    const { server } = await serve({}, { headersTimeoutMs: 200, requestTimeoutMs: 600 });
    const connection = await RawConnection.open(server.url);
    connection.write('POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n');
    const drip = setInterval(() => connection.write('x'), 20);
    try {
      // The answer did not wait for the body; the rest of it is not waited for either.
      expect(statusOf(await connection.all())[0]).toBe(404);
    } finally {
      clearInterval(drip);
    }
  });

  it('may send only so many bytes of headers', async () => {
    const { server } = await serve({}, { maxHeaderBytes: 1024 });
    const connection = (await RawConnection.open(server.url)).write('GET /health HTTP/1.1\r\nHost: a\r\n');
    for (let line = 0; line < 200; line++) connection.write(`X-${line}: ${'x'.repeat(100)}\r\n`);
    expect(statusOf(await connection.all())).toEqual([431]);
  });

  it('is closed when it idles after an answer', async () => {
    const { server } = await serve({}, { keepAliveMs: 100, headersTimeoutMs: 200, requestTimeoutMs: 400 });
    const connection = (await RawConnection.open(server.url)).write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(statusOf(await connection.all())).toEqual([200]);
  });

  it('is dropped when there are too many, and room comes with each end', async () => {
    const { server } = await serve({}, { maxConnections: 4, maxSockets: 3 });
    const held = await Promise.all([0, 1, 2, 3].map(() => RawConnection.open(server.url)));
    await held[3]!.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
    await waitFor(() => held[3]!.received !== '', 'an answer');
    expect(await (await RawConnection.open(server.url)).all()).toBe('');
    for (const { socket } of held) socket.destroy();
    let status = 0;
    await waitFor(() => {
      void fetch(`${server.url}/health`).then(
        (answer) => (status = answer.status),
        () => {},
      );
      return status === 200;
    }, 'room for another connection');
  });

  it('does not outlive the server', async () => {
    const { server } = await serve();
    const connection = (await RawConnection.open(server.url)).write('GET /health HTTP/1.1\r\nHost');
    await server.close();
    await connection.all();
  });
});

describe('an answer', () => {
  it('that nobody reads is given up', async () => {
    const text = 'x'.repeat(32 * 1024 * 1024);
    const engine = engineCalling(async () => ({ text }));
    const limits = { drainMs: 0, slowReaderMs: 300 };
    await using server = await createServer({ engine, port: 0, limits });
    const connection = await RawConnection.open(server.url);
    connection.socket.pause();
    const head =
      'POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n';
    connection.write(`${head}{"model":"scripted"   }`);
    await waitFor(() => server.stats().streams === 1, 'the request');
    await waitFor(() => server.stats().streams === 0, 'its end');
    connection.socket.resume();
    const received = await connection.all();
    expect(received).toMatch(/^HTTP\/1\.1 200 /);
    expect(received.length).toBeLessThan(text.length);
  });
});

describe('a socket', () => {
  it('is not held to the deadlines of a request', async () => {
    const { connect } = await serve({}, { keepAliveMs: 50, headersTimeoutMs: 100, requestTimeoutMs: 200 });
    const client = await connect();
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect((await client.generate('a')).end!.type).toBe('done');
  });
});
