import type { StetEngine } from '@stet/engine';
import { createServer, type ServerLimits, type StetServer } from '@stet/server';
import { mix32 } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { waitFor } from './support/harness.js';
import { ObservedStream } from './support/stream-checker.js';
import { TestSocket } from './support/test-socket.js';
import { toyEngine } from './support/toy-engine.js';

const MISMATCH_RATE = 0.25;
const CLIENTS = 12;
/** Without more credit it never ends by itself: only whoever loses it can free it. */
const ENDLESS = { maxTokens: 400, ignoreEos: true, credit: 30 };
const idleStats = { sockets: 0, streams: 0, unsentBytes: 0, detachedStreams: 0, keptBytes: 0 };

/** How far an answer has come when its connection breaks. */
const moments = ['asked', 'accepted', 'candidates', 'rollback', 'commits'] as const;
const faults = ['terminate', 'destroy', 'close', 'half-open', 'cancel', 'slow'] as const;

/** What is asked for by name; those with long prompts break in prefill. */
const requests = Array.from({ length: 6 }, (_, index) => ({
  prompt: `request ${index} `.repeat(index % 2 === 0 ? 1 : 15),
  ...{ deterministic: true, provisional: true, seed: index, maxTokens: 40 + 20 * index, ignoreEos: true },
  ...(index % 3 === 2 && { temperature: 0.9, topP: 0.9 }),
}));

/** What a client has of an answer. */
interface Received {
  tokens: number[];
  text: string;
  hash: string;
  handle: string | undefined;
}

interface Answer {
  readonly tokens: readonly number[];
  readonly text: string;
  readonly hash: string;
}

class Chaos {
  readonly outcomes = { resumed: 0, regenerated: 0, whole: 0 };
  readonly sockets: TestSocket[] = [];
  /** Of every request, from before anything broke. */
  undisturbed: readonly Answer[] = [];

  constructor(
    readonly server: StetServer,
    readonly engine: StetEngine,
  ) {}

  async connect(): Promise<TestSocket> {
    const socket = await TestSocket.connect(this.server.url);
    this.sockets.push(socket);
    return socket;
  }

  /** Every answer as it is when nothing breaks. */
  async answers(): Promise<Answer[]> {
    const socket = await this.connect();
    const answers: Answer[] = [];
    for (const request of requests) {
      const { tokens, text, hash, end } = await socket.generate('a', request);
      expect(end).toMatchObject({ type: 'done', receipt: { outputHash: hash } });
      answers.push({ tokens, text, hash });
    }
    socket.socket.close();
    return answers;
  }

  async run(count: number): Promise<void> {
    this.undisturbed = await this.answers();
    let next = 0;
    const client = async () => {
      while (next < count) await this.#incident(next++);
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    // Those that were left half-open.
    for (const { socket } of this.sockets) socket.terminate();
  }

  async idle(): Promise<void> {
    const { server, engine } = this;
    await waitFor(() => server.stats().sockets + server.stats().detachedStreams === 0, 'the last stream', 30_000);
    await waitFor(() => engine.stats().running + engine.stats().waiting === 0, 'an idle engine', 30_000);
    expect(server.stats()).toEqual(idleStats);
    expect(engine.stats().blocks.held).toBe(0);
  }

  async #incident(index: number): Promise<void> {
    const random = mix32(index, 0xc4a05) >>> 0;
    const moment = moments[index % moments.length]!;
    const fault = faults[random % faults.length]!;
    const which = (random >>> 8) % requests.length;
    const socket = await this.connect();
    for (let side = 0; side < (random >>> 12) % 3; side++)
      socket.send({ type: 'generate', id: `side ${side}`, prompt: `side ${index} ${side}`, ...ENDLESS });
    const stream = new ObservedStream();
    socket.streams.set('a', stream);
    socket.send({ type: 'generate', id: 'a', ...requests[which] });
    await reach(socket, stream, moment);
    const received = await strike(socket, stream, fault, (random >>> 16) % 40);
    if (received === undefined) return;
    if (stream.end?.type !== 'done') await this.#comeBack(which, received, (random >>> 24) % 3 > 0);
    const { tokens, text, hash } = received;
    expect({ tokens, text, hash }).toEqual(this.undisturbed[which]);
    this.outcomes.whole++;
  }

  /** Fetches what is missing; where the handle is unknown it is computed again. */
  async #comeBack(which: number, received: Received, mayResume: boolean): Promise<void> {
    let handle = mayResume ? received.handle : undefined;
    for (;;) {
      const socket = await this.connect();
      const stream = new ObservedStream();
      socket.streams.set('b', stream);
      const after = received.tokens.length;
      const again = { type: 'generate', ...requests[which], ...(after > 0 && { after, hash: received.hash }) };
      socket.send({ ...(handle === undefined ? again : { type: 'resume', stream: handle, after }), id: 'b' });
      await socket.until(() => stream.end !== undefined, 'the end');
      take(received, stream);
      socket.socket.close();
      if (stream.end?.type === 'done') {
        this.outcomes[handle === undefined ? 'regenerated' : 'resumed']++;
        return;
      }
      expect(stream.end).toMatchObject({ code: 'STET_ERR_UNKNOWN_STREAM' });
      handle = undefined;
    }
  }
}

async function reach(socket: TestSocket, stream: ObservedStream, moment: (typeof moments)[number]): Promise<void> {
  const hasCome = () => {
    if (stream.end !== undefined) return true;
    switch (moment) {
      case 'asked':
        return true;
      case 'accepted':
        return stream.accepted !== undefined;
      case 'candidates':
        return socket.frames.some((frame) => frame.type === 'provisional' && frame.id === 'a');
      case 'rollback':
        return stream.rollbacks > 0;
      case 'commits':
        return stream.tokens.length > 20;
    }
  };
  await socket.until(hasCome, moment);
}

/** Breaks the connection; what the client had then, or undefined where it wants no more. */
async function strike(
  socket: TestSocket,
  stream: ObservedStream,
  fault: (typeof faults)[number],
  pauseMs: number,
): Promise<Received | undefined> {
  switch (fault) {
    case 'terminate':
      socket.socket.terminate();
      break;
    case 'destroy':
      socket.raw.destroy();
      break;
    case 'half-open':
      socket.raw.pause();
      break;
    case 'close':
      socket.socket.close();
      await socket.closed;
      return undefined;
    case 'cancel':
      socket.send({ type: 'cancel', id: 'a' });
      await socket.until(() => stream.end !== undefined, 'the answer to a cancel');
      socket.socket.close();
      return undefined;
    case 'slow':
      socket.raw.pause();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      socket.raw.resume();
      await socket.until(() => stream.end !== undefined, 'the end of a slow reader');
      socket.socket.close();
      break;
  }
  const received: Received = { tokens: [], text: '', hash: '', handle: undefined };
  take(received, stream);
  return received;
}

/** A copy: what comes later over a connection that is given up was not received. */
function take(received: Received, { tokens, text, hash, accepted }: ObservedStream): void {
  received.tokens.push(...tokens);
  received.text += text;
  if (tokens.length > 0) received.hash = hash;
  received.handle = accepted?.stream ?? received.handle;
}

async function withChaos(limits: Partial<ServerLimits>, test: (chaos: Chaos) => Promise<void>): Promise<void> {
  await using engine = await toyEngine(MISMATCH_RATE);
  await using server = await createServer({
    engine,
    port: 0,
    limits: { drainMs: 0, closeHandshakeMs: 500, ...limits },
  });
  const chaos = new Chaos(server, engine);
  await test(chaos);
  for (const { violation } of chaos.sockets) expect(violation).toBeUndefined();
}

describe('connections that break at any moment, over a model that mispredicts', () => {
  it.each([0, 600])(
    'leave nothing, and no answer is another, with a resume window of %d ms',
    async (resumeWindowMs) => {
      await withChaos({ resumeWindowMs }, async (chaos) => {
        await chaos.run(120);
        await chaos.idle();
        expect(chaos.engine.stats().rollbacks).toBeGreaterThan(100);
        expect(chaos.outcomes.whole).toBeGreaterThan(50);
        expect(chaos.outcomes.regenerated).toBeGreaterThan(5);
        if (resumeWindowMs > 0) expect(chaos.outcomes.resumed).toBeGreaterThan(5);
        expect(await chaos.answers()).toEqual(chaos.undisturbed);
        await chaos.idle();
      });
    },
  );

  it('leave nothing when they carry server-sent events', async () => {
    await withChaos({}, async (chaos) => {
      const outcomes = { whole: 0, left: 0 };
      const read = async (index: number) => {
        const random = mix32(index, 0x55e) >>> 0;
        const leave = new AbortController();
        const { prompt, seed } = requests[index % requests.length]!;
        const response = await fetch(`${chaos.server.url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ prompt, seed, max_tokens: 120, stream: true, deterministic: index % 2 === 0 }),
          signal: leave.signal,
        });
        expect(response.status).toBe(200);
        const reader = response.body!.getReader();
        for (let reads = random % 30; reads > 0; reads--) {
          if (!(await reader.read()).done) continue;
          outcomes.whole++;
          return;
        }
        outcomes.left++;
        leave.abort();
      };
      for (let round = 0; round < 5; round++)
        await Promise.all(Array.from({ length: CLIENTS }, (_, index) => read(round * CLIENTS + index)));
      expect(outcomes.whole + outcomes.left).toBe(5 * CLIENTS);
      expect(outcomes.left).toBeGreaterThan(20);
      await chaos.idle();
    });
  });
});
