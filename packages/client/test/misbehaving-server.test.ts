import { HashChain } from '@stet/backend/hash-chain';
import { type ClientEvent, type ConnectOptions, connect } from '@stet/client';
import { protocolLimits } from '@stet/server/protocol';
import { describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { MAX_FRAME_BYTES } from '../src/connection.js';
import { fakeServer } from './harness.js';

const accepted = { type: 'accepted', stream: 's', fingerprint: 'f', seed: 1, params: { deterministic: true } };
const commit = { type: 'commit', from: 0, tokens: [1], text: 'a', hash: hashOf([1]) };
const done = { type: 'done', usage: { completionTokens: 1 } };
const receipt = { fingerprint: 'f', seed: 1, outputHash: hashOf([1]) };

function hashOf(tokens: readonly number[]): string {
  const chain = new HashChain();
  for (const token of tokens) chain.push(token);
  return chain.hex;
}

/** What a client that asks for one stream sees when the server answers with these frames. */
async function outcome(
  answer: (socket: WebSocket, id: string) => void,
  options: ConnectOptions = {},
): Promise<{ read: string[]; error: unknown; last: Record<string, unknown> | undefined }> {
  let last: Record<string, unknown> | undefined;
  const url = await fakeServer((socket) => {
    socket.on('message', (data) => {
      const frame = JSON.parse(String(data)) as Record<string, unknown>;
      const { type, id } = frame as { type: string; id: string };
      if (type === 'ping') send(socket, { type: 'pong', t: frame.t });
      else last = frame;
      if (type === 'generate') answer(socket, id);
    });
  });
  await using client = await connect(url, { closeTimeoutMs: 100, reconnect: false, ...options });
  const read: string[] = [];
  try {
    for await (const event of client.generate({ prompt: 'p' }) as AsyncIterable<ClientEvent>) read.push(event.type);
    return { read, error: undefined, last };
  } catch (error) {
    // What the client sent before this.
    await client.ping({ signal: AbortSignal.timeout(5_000) }).catch(() => {});
    return { read, error, last };
  }
}

function send(socket: WebSocket, ...frames: object[]): void {
  for (const frame of frames) socket.send(JSON.stringify(frame));
}

describe('a server that breaks the protocol', () => {
  it('ends the stream whose frames have a gap', async () => {
    const { read, error } = await outcome((socket, id) =>
      send(socket, { ...accepted, id, seq: 0 }, { ...commit, id, seq: 2 }),
    );
    expect(read).not.toContain('commit');
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_FRAME', message: 'frame 2 came instead of frame 1' });
  });

  it.each([
    ['a first frame that is not accepted', { ...commit }],
    ['two accepted frames', { ...accepted }, { ...accepted }],
    ['an accepted frame without a handle', { ...accepted, stream: undefined }],
    ['an accepted frame without parameters', { ...accepted, params: null }],
    ['an accepted frame from the middle', { ...accepted, after: 3 }],
    ['tokens that it left out before', { ...accepted }, { ...commit, from: 1 }],
    ['tokens that it sent before', { ...accepted }, { ...commit }, { ...commit }],
    ['no tokens', { ...accepted }, { ...commit, tokens: undefined }],
    ['tokens that are none', { ...accepted }, { ...commit, tokens: [1.5] }],
    ['no text', { ...accepted }, { ...commit, text: undefined }],
    ['a hash that is not of its tokens', { ...accepted }, { ...commit, tokens: [2] }],
    ['candidates after a gap', { ...accepted }, { type: 'provisional', from: 1, tokens: [1], text: '' }],
    ['a rollback of what is final', { ...accepted }, { ...commit }, { type: 'rollback', to: 0 }],
    ['a rollback of nothing', { ...accepted }, { type: 'rollback', to: 1 }],
    ['an end too early', { ...accepted }, { ...done }],
    ['an end without a count', { ...accepted }, { ...commit }, { type: 'done' }],
    [
      'a receipt of another output',
      { ...accepted },
      { ...commit },
      { ...done, receipt: { ...receipt, outputHash: hashOf([2]) } },
    ],
    ['a receipt of another seed', { ...accepted }, { ...commit }, { ...done, receipt: { ...receipt, seed: 2 } }],
    [
      'a receipt of another model',
      { ...accepted },
      { ...commit },
      { ...done, receipt: { ...receipt, fingerprint: 'g' } },
    ],
  ])('ends the stream that has %s, and tells the server', async (_, ...frames) => {
    const { read, error, last } = await outcome((socket, id) =>
      send(socket, ...(frames as object[]).map((frame, seq) => ({ ...frame, id, seq }))),
    );
    expect(error).toMatchObject({ code: 'STET_ERR_BAD_FRAME' });
    expect(read).not.toContain('done');
    // What was in order is read; the frame that was not is not.
    expect(read).toHaveLength(frames.length - 1);
    expect(last!.type).toBe((frames.at(-1) as { type: string }).type === 'done' ? 'generate' : 'cancel');
  });

  it('is believed hashes where they are not verified, as long as they agree with each other', async () => {
    const trust = { verifyHash: false };
    const answer = (outputHash: string) => (socket: WebSocket, id: string) =>
      send(
        socket,
        { ...accepted, id, seq: 0 },
        { ...commit, hash: 'h', id, seq: 1 },
        { ...done, receipt: { ...receipt, outputHash }, id, seq: 2 },
      );
    expect((await outcome(answer('h'), trust)).read.at(-1)).toBe('done');
    expect((await outcome(answer('i'), trust)).error).toMatchObject({ code: 'STET_ERR_BAD_FRAME' });
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
        { ...accepted, id, seq: 0 },
        { ...commit, id, seq: 1 },
        { ...done, id, seq: 2 },
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
