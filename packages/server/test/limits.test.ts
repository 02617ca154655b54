import { StetError } from '@stet/backend';
import { createServer, type ServerLimits } from '@stet/server';
import { describe, expect, it } from 'vitest';
import { serve, waitFor } from './support/harness.js';
import { ScriptedEngine } from './support/scripted-engine.js';

describe('the streams of a socket', () => {
  it('may be as many as the limit, and one more is refused until one has ended', async () => {
    const { connect, idle } = await serve({}, { maxStreamsPerSocket: 3 });
    const client = await connect();
    const other = await connect();
    for (const id of ['a', 'c']) client.send({ type: 'generate', id, prompt: id, maxTokens: 1000 });
    const cancelled = client.generate('b', { maxTokens: 1000 });
    const refused = await client.generate('d');
    expect(refused.end).toMatchObject({ code: 'STET_ERR_TOO_MANY_STREAMS', seq: 0, retryable: true });
    expect((await other.generate('d')).end!.type).toBe('done');
    client.send({ type: 'cancel', id: 'b' });
    await cancelled;
    expect((await client.generate('d', { maxTokens: 1 })).end!.type).toBe('done');
    client.socket.terminate();
    await idle();
  });

  it('end with the code of a full engine queue, and may be sent again', async () => {
    const { connect, idle } = await serve({ maxRunning: 1 });
    const client = await connect();
    const first = client.generate('a', { maxTokens: 200 });
    expect((await client.generate('b')).end).toMatchObject({ code: 'STET_ERR_QUEUE_FULL', retryable: true });
    await first;
    expect((await client.generate('b')).end!.type).toBe('done');
    await idle();
  });
});

describe('the sockets of a server', () => {
  it('may be as many as the limit, and one more is refused with 503 until one is closed', async () => {
    const { connect, server } = await serve({}, { maxSockets: 2 });
    const first = await connect();
    await connect();
    await expect(connect()).rejects.toThrow('503');
    expect(server.stats().sockets).toBe(2);
    first.socket.close();
    await first.closed;
    await waitFor(() => server.stats().sockets === 1, 'the end of the socket');
    expect((await (await connect()).generate('a')).end!.type).toBe('done');
  });
});

describe('a limit', () => {
  it.each<[string, Partial<ServerLimits>]>([
    ['unknown', { maxSokets: 1 } as never],
    ['zero', { maxSockets: 0 }],
    ['a fraction', { heartbeatMs: 1.5 }],
    ['negative', { drainMs: -1 }],
    ['a low mark at the high mark', { lowWaterBytes: 1000, highWaterBytes: 1000 }],
  ])('that is %s is refused before the server listens', async (_, limits) => {
    const engine = new ScriptedEngine();
    const error = await createServer({ engine, port: 0, limits }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StetError);
    expect(error).toMatchObject({ code: 'STET_ERR_UNSUPPORTED' });
  });
});
