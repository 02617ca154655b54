import { type ClientEvent, connect } from '@stet/client';
import { protocolLimits } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { MAX_FRAME_BYTES } from '../src/connection.js';
import { fakeServer } from './harness.js';

const commit = { type: 'commit', from: 0, tokens: [1], text: 'a', hash: 'h' };

/** What a client that asks for one stream sees when the server answers with these frames. */
async function outcome(answer: (socket: WebSocket, id: string) => void): Promise<{ read: string[]; error: unknown }> {
  const url = await fakeServer((socket) => {
    socket.on('message', (data) => {
      const { type, id } = JSON.parse(String(data)) as { type: string; id: string };
      if (type === 'generate') answer(socket, id);
    });
  });
  await using client = await connect(url, { closeTimeoutMs: 100 });
  const read: string[] = [];
  try {
    for await (const event of client.generate({ prompt: 'p' }) as AsyncIterable<ClientEvent>) read.push(event.type);
    return { read, error: undefined };
  } catch (error) {
    return { read, error };
  }
}

function send(socket: WebSocket, ...frames: object[]): void {
  for (const frame of frames) socket.send(JSON.stringify(frame));
}

describe('a server that breaks the protocol', () => {
  it('ends the stream whose frames have a gap', async () => {
    const { read, error } = await outcome((socket, id) =>
      send(socket, { type: 'accepted', id, seq: 0 }, { ...commit, id, seq: 2 }),
    );
    expect(read).not.toContain('commit');
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_FRAME', message: 'frame 2 came instead of frame 1' });
  });

  it.each(['not JSON', 'null', '7', '[]', '{}', '{"type":"new"}'])(
    'ends the connection that sends %s',
    async (text) => {
      const { error } = await outcome((socket) => socket.send(text));
      expect(error).toMatchObject({ code: 'STET_ERR_BAD_FRAME' });
    },
  );

  it('cannot confuse a client with frames of streams that it does not know', async () => {
    const { read, error } = await outcome((socket, id) =>
      send(
        socket,
        { ...commit, id: 'nobody', seq: 7 },
        { type: 'error', id: 'nobody', code: 'STET_ERR_UNKNOWN_ID', message: 'm', retryable: false },
        { type: 'pong', t: 99 },
        { type: 'accepted', id, seq: 0 },
        { ...commit, id, seq: 1 },
        { type: 'done', id, seq: 2 },
      ),
    );
    expect(error).toBeUndefined();
    expect(read.at(-1)).toBe('done');
  });

  it('may know codes that the client does not', async () => {
    const { error } = await outcome((socket, id) =>
      send(socket, { type: 'error', id, seq: 0, code: 'STET_ERR_FROM_THE_FUTURE', message: 'm', retryable: true }),
    );
    expect(error).toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: 'the server answered STET_ERR_FROM_THE_FUTURE: m',
      retryable: true,
    });
  });

  it.each([
    [1013, 'STET_ERR_SLOW_READER', 'STET_ERR_SLOW_READER', true],
    [1012, 'STET_ERR_SHUTTING_DOWN', 'STET_ERR_SHUTTING_DOWN', true],
    [4400, 'STET_ERR_UNSUPPORTED', 'STET_ERR_UNSUPPORTED', false],
    [1009, '', 'STET_ERR_BAD_FRAME', false],
    [1011, 'tired', 'STET_ERR_CONNECTION', true],
  ])('ends streams by closing with %i "%s": %s', async (closeCode, reason, code, retryable) => {
    const { error } = await outcome((socket) => socket.close(closeCode, reason));
    expect(error).toMatchObject({ code, retryable });
  });

  it('that never accepts the connection is given up', async () => {
    const { createServer } = await import('node:net');
    const silent = createServer((socket) => socket.on('error', () => {}));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as { port: number };
    const error = await connect(`ws://127.0.0.1:${port}`, { connectTimeoutMs: 100 }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION', message: expect.stringContaining('within 100 ms') });
    silent.close();
  });
});

describe('the client', () => {
  it('knows the largest frame of the protocol', () => {
    expect(MAX_FRAME_BYTES).toBe(protocolLimits.maxFrameBytes);
  });
});
