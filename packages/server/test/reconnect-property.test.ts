import { fc } from '@fast-check/vitest';
import type { GenerateRequest } from '@stet/engine';
import { describe, expect, it } from 'vitest';
import { type Harness, serve, waitFor } from './support/harness.js';
import { ScriptedEngine } from './support/scripted-engine.js';
import { ObservedStream } from './support/stream-checker.js';
import type { TestSocket } from './support/test-socket.js';

/** When and how a connection is lost, and how its stream is then continued. */
interface Loss {
  readonly afterTokens: number;
  readonly how: 'terminate' | 'destroy' | 'half-open';
  readonly way: 'resume' | 'regenerate';
  readonly absentMs: number;
  /** The server that is asked next: another one does not know the stream. */
  readonly server: 0 | 1;
}

const loss: fc.Arbitrary<Loss> = fc.record({
  afterTokens: fc.oneof(fc.constant(0), fc.nat(60)),
  how: fc.constantFrom('terminate', 'destroy', 'half-open'),
  way: fc.constantFrom('resume', 'resume', 'regenerate'),
  absentMs: fc.constantFrom(0, 0, 4),
  server: fc.constantFrom(0, 0, 1),
});

const scenario = fc.record({
  losses: fc.array(loss, { maxLength: 6 }),
  windowTokens: fc.integer({ min: 1, max: 9 }),
  deterministic: fc.boolean(),
  provisional: fc.boolean(),
  credit: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  resumeBufferBytes: fc.constantFrom(2_000, 100_000),
  seed: fc.nat(1000),
});

/** What a client has of an answer. */
class Received {
  tokens: number[] = [];
  text = '';
  hash = '';
  handle: string | undefined;

  /** What came until now; what comes later over a socket that is given up is not received. */
  add({ accepted, tokens, text, hash }: ObservedStream): void {
    if (tokens.length > 0) this.hash = hash;
    this.tokens = [...this.tokens, ...tokens];
    this.text += text;
    this.handle = accepted?.stream ?? this.handle;
  }
}

/** A client that loses its connections as told and always continues. */
class LossyClient {
  readonly received = new Received();
  #count = 0;

  constructor(
    private readonly servers: readonly [Harness, Harness],
    private readonly request: GenerateRequest & { readonly credit?: number },
  ) {}

  async run(losses: readonly Loss[]): Promise<ObservedStream> {
    let way: Loss['way'] = 'regenerate';
    let server: Loss['server'] = 0;
    for (const { afterTokens, how, absentMs, ...next } of losses) {
      const socket = await this.servers[server].connect();
      const stream = await this.#continue(socket, way, afterTokens);
      this.received.add(stream);
      if (stream.end?.type === 'done') return stream;
      if (how === 'half-open') socket.raw.pause();
      else if (how === 'terminate') socket.socket.terminate();
      else socket.raw.destroy();
      if (absentMs > 0) await new Promise((resolve) => setTimeout(resolve, absentMs));
      way = next.way;
      // An ordinary request cannot be computed again.
      if (this.request.deterministic) server = next.server;
    }
    const last = await this.#continue(await this.servers[server].connect(), way, Number.POSITIVE_INFINITY);
    this.received.add(last);
    return last;
  }

  async #continue(socket: TestSocket, way: Loss['way'], afterTokens: number): Promise<ObservedStream> {
    const { handle, tokens } = this.received;
    const mustResume = this.request.deterministic === false;
    if (handle !== undefined && (way === 'resume' || mustResume)) {
      const { credit } = this.request;
      const resumed = await this.#read(
        socket,
        { type: 'resume', stream: handle, after: tokens.length, credit },
        afterTokens,
      );
      if (resumed.end?.type !== 'error') return resumed;
      // The buffer of a stream may have forgotten what its client never received.
      expect(resumed.end.code).toBe('STET_ERR_UNKNOWN_STREAM');
      expect(mustResume).toBe(false);
    }
    const known = tokens.length > 0 ? { after: tokens.length, hash: this.received.hash } : {};
    return this.#read(socket, { ...this.request, type: 'generate', ...known }, afterTokens);
  }

  /** Sends a frame and reads its stream until so many tokens have come or it has ended. */
  async #read(socket: TestSocket, frame: object, afterTokens: number): Promise<ObservedStream> {
    const id = `s${this.#count++}`;
    const stream = new ObservedStream();
    socket.streams.set(id, stream);
    socket.send({ ...frame, id });
    let granted = this.request.credit ?? Number.POSITIVE_INFINITY;
    const enough = () => {
      if (stream.end === undefined && stream.tokens.length >= granted) {
        socket.send({ type: 'credit', id, n: 9 });
        granted += 9;
      }
      return stream.end !== undefined || stream.tokens.length >= afterTokens;
    };
    await socket.until(enough, 'tokens or the end');
    return stream;
  }
}

describe('whatever connections are lost', () => {
  it('a client that resumes or asks again has the answer of one that was never interrupted', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ losses, windowTokens, credit, resumeBufferBytes, ...rest }) => {
        const request = { prompt: 'p', maxTokens: 180, ...rest };
        const expected = new Received();
        for await (const event of new ScriptedEngine({ windowTokens }).generate(request)) {
          if (event.type !== 'commit') continue;
          expected.tokens.push(...event.tokens);
          expected.text += event.text;
          expected.hash = event.hash;
        }
        const limits = {
          resumeWindowMs: 60_000,
          // What an ordinary request has lost is lost.
          resumeBufferBytes: rest.deterministic ? resumeBufferBytes : 100_000,
        };
        const harness = await serve({ windowTokens, maxUnreadTokens: 16 }, limits);
        const other = await serve({ windowTokens: windowTokens + 2 }, limits);
        const client = new LossyClient([harness, other], { ...request, ...(credit !== undefined && { credit }) });
        const last = await client.run(losses);
        const { tokens, text, hash } = client.received;
        expect({ tokens, text, hash }).toEqual({
          tokens: expected.tokens,
          text: expected.text,
          hash: expected.hash,
        });
        expect(last.end).toMatchObject({ type: 'done', usage: { completionTokens: 180 } });
        for (const { server, idle } of [harness, other]) {
          await server.close();
          await idle();
          expect(server.stats()).toMatchObject({ streams: 0, detachedStreams: 0, keptBytes: 0 });
        }
      }),
      { numRuns: Number(process.env.STET_RECONNECT_RUNS ?? 40) },
    );
  });

  it('leaves nothing once the time of every stream is over', async () => {
    const harness = await serve({ windowTokens: 4 }, { resumeWindowMs: 100, resumeBufferBytes: 4_000 });
    const { server, engine } = harness;
    const scenarios = fc.sample(scenario, { numRuns: 30, seed: 1 });
    const run = async ({ losses, deterministic, provisional, seed }: (typeof scenarios)[number]) => {
      const client = await harness.connect();
      const afterTokens = losses[0]?.afterTokens ?? 5;
      const request = { prompt: 'p', maxTokens: 900, deterministic, provisional, seed };
      await client.generateUntil('a', afterTokens, request);
      client.raw.destroy();
    };
    await Promise.all(scenarios.map(run));
    await harness.idle();
    await waitFor(
      () => server.stats().detachedStreams === 0 && server.stats().sockets === 0,
      'the end of every stream',
    );
    expect(server.stats()).toMatchObject({ streams: 0, keptBytes: 0 });
    expect(engine.stats()).toMatchObject({ running: 0, blocks: { held: 0 } });
  });
});
