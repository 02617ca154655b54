import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';

describe('the heartbeat', () => {
  it('terminates a socket that misses a pong and frees its requests', async () => {
    const { connect, server, idle } = await serve({}, { heartbeatMs: 60 });
    const client = await connect('stet.v1', { autoPong: false });
    client.send({ type: 'generate', id: 'a', prompt: 'a', maxTokens: 900 });
    await client.until(() => client.frames.length > 0, 'a frame');
    expect(await client.closed).toMatchObject({ code: 1006 });
    await idle();
    await waitFor(() => server.stats().sockets === 0, 'the socket to be forgotten');
  });

  it('keeps a socket that answers, however long it says nothing else', async () => {
    // Long enough that a busy machine does not delay a pong past the next ping.
    const { connect, server } = await serve({}, { heartbeatMs: 300 });
    const client = await connect();
    let pings = 0;
    client.socket.on('ping', () => pings++);
    await waitFor(() => pings >= 5, 'five pings');
    expect(server.stats().sockets).toBe(1);
    expect((await client.generate('a')).end!.type).toBe('done');
  });

  it('takes any frame for a sign of life', async () => {
    const { connect, server } = await serve({}, { heartbeatMs: 500 });
    const client = await connect('stet.v1', { autoPong: false });
    for (let round = 0; round < 20; round++) {
      client.send({ type: 'ping', t: round });
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    expect(server.stats().sockets).toBe(1);
    client.socket.terminate();
  });
});
