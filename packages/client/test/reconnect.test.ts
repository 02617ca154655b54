import { type ConnectionState, type ConnectOptions, connect, type OutgoingRequest, StreamError } from '@stet/client';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { resolveReconnect, retryDelayMs } from '../src/reconnect-policy.js';
import { waitFor } from './harness.js';
import { read } from './support/read.js';
import {
  acceptedFrame,
  commitFrame,
  doneFrame,
  errorFrame,
  hashOf,
  type Peer,
  type Script,
  scriptedServer,
} from './support/scripted-server.js';

const soon = { initialDelayMs: 1, maxDelayMs: 4, maxAttempts: 5 };
const request: OutgoingRequest = { prompt: 'p', maxTokens: 4, deterministic: true };

/** Accepts, sends the tokens before `to`, and breaks the connection. */
function breakAfter(to: number, accepted = acceptedFrame()): Script {
  return ({ id }, peer) => {
    peer.send(id, accepted, ...(to > 0 ? [commitFrame(0, to)] : []));
    // After what was sent.
    setTimeout(() => peer.socket.terminate(), 20);
  };
}

/** Sends the tokens from `from` on, and the end. */
function finishFrom(from: number, accepted: object = {}): Script {
  const after = from > 0 ? { after: from } : {};
  return ({ id, type }, peer) => {
    if (type !== 'cancel') peer.send(id, acceptedFrame({ ...after, ...accepted }), commitFrame(from, 4), doneFrame(4));
  };
}

const unknown: Script = ({ id }, peer) => peer.send(id, errorFrame('STET_ERR_UNKNOWN_STREAM'));

/** `resume` is answered by one script, everything else by the other. */
function either(resume: Script, other: Script): Script {
  return (frame, peer) => (frame.type === 'resume' ? resume : other)(frame, peer);
}

async function outcome(scripts: readonly Script[], sent = request, options: ConnectOptions = {}) {
  const { url, peers } = await scriptedServer(...scripts);
  const states: ConnectionState[] = [];
  const onState = (state: ConnectionState) => void states.push(state);
  await using client = await connect(url, { reconnect: soon, closeTimeoutMs: 100, onState, ...options });
  const reading = await read(client.generate(sent));
  await client.ping().catch(() => {});
  return { ...reading, peers, states };
}

function typesOf(peer: Peer): unknown[] {
  return peer.received.map(({ type }) => type);
}

describe('a stream whose connection is lost', () => {
  it('goes on by its handle after the tokens that were received, and its reader sees one stream', async () => {
    const { events, text, error, peers } = await outcome([breakAfter(2), finishFrom(2)]);
    expect(error).toBeUndefined();
    expect(text).toBe('<0><1><2><3>');
    expect(events.map(({ type }) => type)).toEqual(['accepted', 'commit', 'commit', 'done']);
    expect(peers[1]!.received).toEqual([{ type: 'resume', id: '1', stream: 's', after: 2 }]);
  });

  it('goes on as often as it takes', async () => {
    const one: Script = ({ id, after = 0 }, peer) => {
      const from = after as number;
      peer.send(id, acceptedFrame(from > 0 ? { after } : {}), commitFrame(from, from + 1));
      if (from === 3) peer.send(id, doneFrame(4));
      else setTimeout(() => peer.socket.terminate(), 10);
    };
    const { tokens, error, peers } = await outcome([one], request, { reconnect: { ...soon, maxAttempts: 1 } });
    expect(error).toBeUndefined();
    expect(tokens).toEqual([0, 1, 2, 3]);
    expect(peers).toHaveLength(4);
  });

  it('has its candidates withdrawn', async () => {
    const candidates = { type: 'provisional', from: 2, tokens: [2, 9], text: '' };
    const show: Script = ({ id }, peer) => {
      peer.send(id, acceptedFrame(), commitFrame(0, 2), candidates);
      setTimeout(() => peer.socket.terminate(), 10);
    };
    const { events } = await outcome([show, finishFrom(2)], { ...request, provisional: true });
    expect(events.map(({ type }) => type)).toEqual(['accepted', 'commit', 'provisional', 'rollback', 'commit', 'done']);
    expect(events[3]).toEqual({ type: 'rollback', to: 2 });
  });

  it('is computed again, after the same tokens, by a server that does not know it', async () => {
    const { tokens, error, peers } = await outcome([breakAfter(2), either(unknown, finishFrom(2, { stream: 't' }))]);
    expect(error).toBeUndefined();
    expect(tokens).toEqual([0, 1, 2, 3]);
    expect(typesOf(peers[1]!)).toEqual(['resume', 'generate']);
    expect(peers[1]!.received[1]).toEqual({
      ...request,
      type: 'generate',
      id: '2',
      seed: 5,
      after: 2,
      hash: hashOf(2),
    });
  });

  it('is resumed by its new handle when it is lost again', async () => {
    const again = breakAfter(0, acceptedFrame({ stream: 't', after: 2 }));
    const { tokens, peers } = await outcome([breakAfter(2), either(unknown, again), finishFrom(2)]);
    expect(tokens).toEqual([0, 1, 2, 3]);
    expect(peers[2]!.received).toEqual([{ type: 'resume', id: '1', stream: 't', after: 2 }]);
  });

  it('is asked for as it was, whatever became of the object', async () => {
    const { url, peers } = await scriptedServer(breakAfter(2), either(unknown, finishFrom(2)));
    await using client = await connect(url, { reconnect: soon });
    const messages = [{ role: 'user', content: 'hello' }];
    const stream = client.generate({ messages, deterministic: true });
    messages.push({ role: 'user', content: 'more' });
    expect((await read(stream)).error).toBeUndefined();
    for (const frame of [peers[0]!.received[0]!, peers[1]!.received[1]!])
      expect(frame.messages).toEqual([{ role: 'user', content: 'hello' }]);
  });

  it('is sent again where nothing of it was received', async () => {
    const lose: Script = (_, peer) => peer.socket.terminate();
    const ordinary = { prompt: 'p' };
    const { tokens, peers } = await outcome([lose, finishFrom(0)], ordinary);
    expect(tokens).toHaveLength(4);
    expect(peers[1]!.received).toEqual([{ ...ordinary, type: 'generate', id: '1' }]);
    const accepted = acceptedFrame({ deterministic: false });
    const second = await outcome([breakAfter(0, accepted), either(unknown, finishFrom(0))], ordinary);
    expect(second.tokens).toHaveLength(4);
    expect(second.peers[1]!.received[1]).toEqual({ ...ordinary, type: 'generate', id: '2', seed: 5 });
  });

  it('ends where it is an ordinary one that the server does not know', async () => {
    const { tokens, error, peers } = await outcome([breakAfter(2, acceptedFrame({ deterministic: false })), unknown]);
    expect(tokens).toEqual([0, 1]);
    expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION', retryable: true, cause: expect.any(StreamError) });
    expect(error!.message).toMatch(/no longer has the stream; an ordinary request cannot be regenerated/);
    expect(typesOf(peers[1]!)).toEqual(['resume']);
  });

  it.each([
    ['another fingerprint', finishFrom(2, { fingerprint: 'g' }), 'the fingerprint is g, not f'],
    ['another seed', finishFrom(2, { seed: 6 }), 'the seed is 6, not 5'],
    ['tokens from elsewhere', finishFrom(2, { after: 1 }), 'the after is 1, not 2'],
    ['tokens twice', ({ id }, peer) => peer.send(id, acceptedFrame({ after: 2 }), commitFrame(1, 4)), 'the from is 1'],
    ['a gap', ({ id }, peer) => peer.send(id, acceptedFrame({ after: 2 }), commitFrame(3, 4)), 'the from is 3, not 2'],
    [
      'other tokens',
      ({ id }, peer) => peer.send(id, acceptedFrame({ after: 2 }), { ...commitFrame(2, 4), hash: hashOf(3) }),
      'the hash is',
    ],
  ] as [string, Script, string][])('ends where it would go on with %s', async (_, script, message) => {
    for (const last of [script, either(unknown, script)]) {
      const { tokens, error, peers } = await outcome([breakAfter(2), last]);
      expect(tokens).toEqual([0, 1]);
      expect(error).toMatchObject({ code: 'STET_ERR_RESUME_MISMATCH', retryable: false });
      expect(error!.message).toContain(message);
      expect(typesOf(peers[1]!).at(-1)).toBe('cancel');
    }
  });

  it('ends with what the server says against it', async () => {
    for (const code of ['STET_ERR_RESUME_MISMATCH', 'STET_ERR_BAD_REQUEST', 'STET_ERR_TAKEN_OVER']) {
      const { error } = await outcome([breakAfter(2), ({ id }, peer) => peer.send(id, errorFrame(code))]);
      expect(error).toMatchObject({ code, retryable: false });
    }
  });

  it('comes back to a server that cannot take it yet', async () => {
    let count = 0;
    const busy: Script = (frame, peer) => {
      if (count++ < 3) peer.send(frame.id, errorFrame('STET_ERR_QUEUE_FULL', true));
      else finishFrom(2)(frame, peer);
    };
    const { tokens, peers } = await outcome([breakAfter(2), busy]);
    expect(tokens).toEqual([0, 1, 2, 3]);
    expect(peers[1]!.received).toHaveLength(4);
    count = Number.NEGATIVE_INFINITY;
    const { error } = await outcome([breakAfter(2), busy]);
    expect(error).toMatchObject({ code: 'STET_ERR_QUEUE_FULL', retryable: true });
  });

  it('is computed again elsewhere when its server goes away, which others may outlast', async () => {
    const leave: Script = ({ id, prompt }, peer) => {
      peer.send(id, acceptedFrame(), commitFrame(0, 2));
      if (prompt === 'p') peer.send(id, errorFrame('STET_ERR_SHUTTING_DOWN', true));
      else setTimeout(() => peer.send(id, commitFrame(2, 4), doneFrame(4)), 100);
    };
    const { url, peers } = await scriptedServer(leave, finishFrom(2));
    await using client = await connect(url, { reconnect: soon });
    const [other, moved] = await Promise.all([
      read(client.generate({ ...request, prompt: 'q' })),
      read(client.generate(request)),
    ]);
    for (const { tokens, error } of [other, moved]) {
      expect(error).toBeUndefined();
      expect(tokens).toEqual([0, 1, 2, 3]);
    }
    expect(peers[1]!.received).toEqual([{ ...request, type: 'generate', id: '1', seed: 5, after: 2, hash: hashOf(2) }]);
  });

  it('ends with its server where it is an ordinary one', async () => {
    const leave: Script = ({ id }, peer) =>
      peer.send(
        id,
        acceptedFrame({ deterministic: false }),
        commitFrame(0, 2),
        errorFrame('STET_ERR_SHUTTING_DOWN', true),
      );
    const { tokens, error } = await outcome([leave, finishFrom(0)]);
    expect(tokens).toEqual([0, 1]);
    expect(error).toMatchObject({ code: 'STET_ERR_SHUTTING_DOWN', retryable: true });
  });
});

describe('the connection', () => {
  it.each([1001, 1012, 1013])('is made anew after a close with %i', async (code) => {
    const close: Script = ({ id }, peer) => {
      peer.send(id, acceptedFrame(), commitFrame(0, 2));
      peer.socket.close(code);
    };
    const { tokens, states } = await outcome([close, finishFrom(2)]);
    expect(tokens).toEqual([0, 1, 2, 3]);
    const kinds = states.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind !== 'waiting')).toEqual([
      'connecting',
      'open',
      'offline',
      'connecting',
      'open',
      'closed',
    ]);
  });

  it.each([1000, 1002, 1007, 1008, 1009, 1011, 4400])(
    'is not after a close with %i, which ends streams',
    async (code) => {
      const close: Script = ({ id }, peer) => {
        peer.send(id, acceptedFrame(), commitFrame(0, 2));
        peer.socket.close(code);
      };
      const { tokens, error, peers } = await outcome([close, finishFrom(2)]);
      expect(tokens).toEqual([0, 1]);
      expect(error!.message).toContain(`code ${code}`);
      expect(typesOf(peers[1]!)).toEqual([]);
    },
  );

  it('is given up after so many attempts without a token', async () => {
    const { error, peers, states } = await outcome([(_, peer) => peer.socket.terminate()], request, {
      reconnect: { ...soon, maxAttempts: 3 },
    });
    expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION', retryable: true });
    // The first, three more for the stream, and that of the ping.
    expect(peers).toHaveLength(5);
    const attempts = states.flatMap((state) => (state.kind === 'connecting' ? [state.attempt] : []));
    expect(attempts).toEqual([1, 2, 3, 4, 5]);
  });

  it('waits longer after each failure, and less than the longest wait', async () => {
    const { url } = await scriptedServer(breakAfter(2));
    const waits: number[] = [];
    const onState = (state: ConnectionState) => {
      if (state.kind === 'waiting') waits.push(state.delayMs);
    };
    await using client = await connect(url, {
      onState,
      reconnect: { maxAttempts: 4, initialDelayMs: 60, maxDelayMs: 150 },
      WebSocket: onlyFirst(url, 'ws://127.0.0.1:1'),
    });
    const { error, tokens } = await read(client.generate(request));
    expect(tokens).toEqual([0, 1]);
    expect(error).toMatchObject({ code: 'STET_ERR_CONNECTION' });
    expect(waits).toHaveLength(4);
    for (const [index, ceilingMs] of [60, 120, 150, 150].entries()) {
      expect(waits[index]).toBeGreaterThan(0);
      expect(waits[index]).toBeLessThanOrEqual(ceilingMs);
    }
    expect(client.state).toMatchObject({ kind: 'offline', error: { code: 'STET_ERR_CONNECTION' } });
  });

  it('waits from a quarter of a second to eight, half of it drawn', () => {
    const policy = resolveReconnect();
    const ceilingsMs = [250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000];
    expect(policy.maxAttempts).toBe(ceilingsMs.length);
    for (const [index, ceilingMs] of ceilingsMs.entries()) {
      expect(retryDelayMs(policy, index + 1, 0)).toBe(ceilingMs / 2);
      expect(retryDelayMs(policy, index + 1, 1)).toBe(ceilingMs);
    }
  });

  it('is no longer tried when nobody waits for it', async () => {
    const { url, peers } = await scriptedServer(breakAfter(2));
    const slow = { initialDelayMs: 60_000, maxDelayMs: 60_000 };
    const states: string[] = [];
    await using client = await connect(url, { reconnect: slow, onState: ({ kind }) => void states.push(kind) });
    const abort = new AbortController();
    const reading = read(client.generate(request, { signal: abort.signal }));
    await waitFor(() => states.at(-1) === 'waiting', 'the wait');
    abort.abort('enough');
    expect((await reading).error).toMatchObject({ code: 'STET_ERR_ABORTED', cause: 'enough' });
    await waitFor(() => states.at(-1) === 'offline', 'the end of the wait');
    const ping = client.ping({ signal: AbortSignal.timeout(20) });
    await expect(ping).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    const closing = read(client.generate(request));
    await waitFor(() => states.at(-1) === 'waiting', 'another wait');
    await client.close();
    expect((await closing).error).toMatchObject({ code: 'STET_ERR_ABORTED', message: 'the client was closed' });
    expect(client.state).toEqual({ kind: 'closed' });
    expect(peers).toHaveLength(1);
  });

  it('is lost when nothing is heard, and the server knows that its streams are still wanted', async () => {
    let closeCode = 0;
    const { url, peers } = await scriptedServer(({ id }, peer) => {
      peer.send(id, acceptedFrame(), commitFrame(0, 2));
      // Hears everything, says nothing.
      peer.socket.send = () => {};
      peer.socket.on('close', (code) => {
        closeCode = code;
      });
    }, finishFrom(2));
    await using client = await connect(url, { reconnect: soon, heartbeatMs: 40 });
    const { tokens, error } = await read(client.generate(request));
    expect(error).toBeUndefined();
    expect(tokens).toEqual([0, 1, 2, 3]);
    expect(peers).toHaveLength(2);
    await waitFor(() => closeCode > 0, 'the close');
    expect(closeCode).toBe(4000);
  });

  it('is kept as long as the server answers, however little it has to say', async () => {
    const { url, peers } = await scriptedServer(finishFrom(0));
    await using client = await connect(url, { heartbeatMs: 150 });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(client.state).toEqual({ kind: 'open' });
    expect((await read(client.generate(request))).error).toBeUndefined();
    expect(peers).toHaveLength(1);
  });

  it('can be given up while it is made', async () => {
    const { url } = await scriptedServer(finishFrom(0));
    const never = () => new Promise<string>(() => {});
    const connecting = connect(url, { ticket: never, signal: AbortSignal.timeout(20) });
    await expect(connecting).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    await expect(connect(url, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
  });

  it.each([
    [{ reconnect: { maxAttempts: 0 } }, 'maxAttempts'],
    [{ reconnect: { initialDelayMs: 9, maxDelayMs: 8 } }, 'maxDelayMs'],
    [{ reconnect: { initialDelayMs: -1 } }, 'initialDelayMs'],
    [{ reconnect: { maxDelayMs: Number.POSITIVE_INFINITY } }, 'maxDelayMs'],
    [{ heartbeatMs: 0 }, 'heartbeatMs'],
    [{ connectTimeoutMs: Number.POSITIVE_INFINITY }, 'connectTimeoutMs'],
    [{ creditTokens: 0 }, 'creditTokens'],
    [{ creditTokens: 1_000_001 }, 'creditTokens'],
    [{ key: 'k', ticket: async () => 't' }, 'ticket'],
  ])('is not made with options that make no sense: %o', async (options, name) => {
    await expect(connect('ws://127.0.0.1:1', options)).rejects.toMatchObject({
      code: 'STET_ERR_UNSUPPORTED',
      message: expect.stringContaining(name),
    });
  });
});

/** The first socket leads to one address, the others to another. */
function onlyFirst(first: string, others: string) {
  let count = 0;
  return class extends WebSocket {
    constructor(_url: string, protocols: string | string[]) {
      super(count++ === 0 ? `${first}/v1/stream` : others, protocols);
    }
  };
}
