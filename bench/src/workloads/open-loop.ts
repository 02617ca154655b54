import { setTimeout as sleep } from 'node:timers/promises';
import { assertNever } from '@stet/backend';
import { FrameSocket, type StreamEnd } from '../load/frame-socket.js';
import { Transcript } from '../load/stream-checker.js';
import type { TraceRequest } from './trace.js';

/** One answer as the client at the other end of a socket saw it. */
export interface TimedAnswer {
  readonly deterministic: boolean;
  /** Of all its tokens. */
  readonly hash: string;
  /** By how much the request left later than it should have. */
  readonly lagMs: number;
  /** From when it should have left: a client that is late itself hides nothing. */
  readonly firstTokenMs: number;
  readonly endToEndMs: number;
  /** Between one commit and the next. */
  readonly gapsMs: readonly number[];
}

const SOCKETS = 8;

/**
 * Sends each request at its time, whether or not others are answered, over WebSockets to the server at `url`, and reads all
 * answers. Rejects where one is refused, cut off or against the protocol, and with the reason of `signal` when it fires.
 */
export async function runOpenLoop(
  url: string,
  trace: readonly TraceRequest[],
  timesMs: readonly number[],
  signal: AbortSignal,
): Promise<TimedAnswer[]> {
  const sockets: FrameSocket[] = [];
  const end = new AbortController();
  const stop = () => {
    end.abort();
    for (const socket of sockets) socket.terminate();
  };
  signal.addEventListener('abort', stop);
  try {
    for (let i = 0; i < Math.min(SOCKETS, trace.length); i++) sockets.push(await FrameSocket.connect(url));
    const start = performance.now();
    return await Promise.all(
      trace.map(async (request, i) => {
        const due = start + timesMs[i]!;
        // Every request has a timer of its own, so that one that fires late delays no other; and a signal, of which Node warns
        // where many share one.
        await sleep(Math.max(0, due - performance.now()), undefined, { signal: AbortSignal.any([end.signal]) });
        return ask(sockets[i % sockets.length]!, request, due);
      }),
    );
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

async function ask(socket: FrameSocket, request: TraceRequest, due: number): Promise<TimedAnswer> {
  const transcript = new Transcript();
  const sent = performance.now();
  const stream = socket.start({ type: 'generate', ...request }, transcript);
  const commits: number[] = [];
  let end = 0;
  stream.onFrame = ({ type }) => {
    const now = performance.now();
    if (type === 'commit') commits.push(now);
    else if (type === 'done') end = now;
  };
  expectDone(await stream.ended);
  if (transcript.tokenCount !== request.maxTokens)
    throw new Error(`${transcript.tokenCount} tokens came of ${request.maxTokens}`);
  return {
    deterministic: request.deterministic,
    hash: transcript.hash,
    lagMs: sent - due,
    firstTokenMs: commits[0]! - due,
    endToEndMs: end - due,
    gapsMs: commits.slice(1).map((at, i) => at - commits[i]!),
  };
}

function expectDone(end: StreamEnd): void {
  switch (end.kind) {
    case 'done':
      return;
    case 'refused':
      throw new Error(`a request was refused: ${end.frame.code}: ${end.frame.message}`);
    case 'violation':
      throw end.error;
    case 'cut':
      throw new Error(`the socket was closed with ${end.closeCode}`);
    default:
      assertNever(end);
  }
}
