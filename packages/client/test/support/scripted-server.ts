import { HashChain } from '@stet/backend/hash-chain';
import type { WebSocket } from 'ws';
import { fakeServer } from '../harness.js';

export type Frame = Record<string, unknown>;

/** One connection to a scripted server. */
export interface Peer {
  readonly socket: WebSocket;
  /** What the client sent, without its pings. */
  readonly received: Frame[];
  /** Sends frames of the stream `id`, with `seq` counted. */
  send(id: unknown, ...frames: readonly Frame[]): void;
}

/** What a server does with each frame of a client but pings, which are answered. */
export type Script = (frame: Frame, peer: Peer) => void;

/** A server that does on its first connection what the first script says, and so on; further ones follow the last. */
export async function scriptedServer(...scripts: readonly Script[]): Promise<{ url: string; peers: Peer[] }> {
  const peers: Peer[] = [];
  const url = await fakeServer((socket) => {
    const script = scripts[Math.min(peers.length, scripts.length - 1)]!;
    const seqs = new Map<unknown, number>();
    const peer: Peer = {
      socket,
      received: [],
      send: (id, ...frames) => {
        for (const frame of frames) {
          const seq = seqs.get(id) ?? 0;
          seqs.set(id, seq + 1);
          socket.send(JSON.stringify({ id, seq, ...frame }));
        }
      },
    };
    peers.push(peer);
    socket.on('message', (data) => {
      const frame = JSON.parse(String(data)) as Frame;
      if (frame.type === 'ping') socket.send(JSON.stringify({ type: 'pong', t: frame.t }));
      else {
        peer.received.push(frame);
        script(frame, peer);
      }
    });
  });
  return { url, peers };
}

export function acceptedFrame(fields: Frame = {}): Frame {
  const { deterministic = true, ...rest } = fields;
  return {
    type: 'accepted',
    stream: 's',
    fingerprint: 'f',
    seed: 5,
    promptTokens: 1,
    params: { deterministic },
    ...rest,
  };
}

/** Output tokens `from` … `to` - 1 of an output in which token `i` is `i`, and its text `<i>`. */
export function commitFrame(from: number, to: number): Frame {
  const tokens = Array.from({ length: to - from }, (_, index) => from + index);
  return { type: 'commit', from, tokens, text: tokens.map((token) => `<${token}>`).join(''), hash: hashOf(to) };
}

export function doneFrame(tokenCount: number): Frame {
  const receipt = { fingerprint: 'f', seed: 5, outputHash: hashOf(tokenCount), outputTokens: tokenCount };
  return { type: 'done', finishReason: 'length', usage: { completionTokens: tokenCount }, receipt };
}

export function errorFrame(code: string, retryable = false): Frame {
  return { type: 'error', code, message: `it was ${code}`, retryable };
}

/** Of the first `tokenCount` tokens of that output. */
export function hashOf(tokenCount: number): string {
  const chain = new HashChain();
  for (let token = 0; token < tokenCount; token++) chain.push(token);
  return chain.hex;
}
