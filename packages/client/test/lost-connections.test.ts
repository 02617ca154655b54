import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { type ClientEvent, type ConnectOptions, connect, type OutgoingRequest } from '@stet/client';
import { createEngine, dvr, type Engine } from '@stet/engine';
import { createReferenceBackend } from '@stet/reference';
import { createServer, type StetServer } from '@stet/server';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ScriptedEngine } from '../../server/test/support/scripted-engine.js';
import { type Reading, read } from './support/read.js';
import { Relay } from './support/relay.js';

const limits = { drainMs: 0, closeHandshakeMs: 200 };
const soon = { initialDelayMs: 1, maxDelayMs: 20, maxAttempts: 20 };

/** Two servers that know nothing of each other's streams, behind one address that can lead to either. */
class Site {
  readonly #cleanups: (() => unknown)[] = [];

  private constructor(
    readonly engine: Engine,
    readonly relay: Relay,
    private servers: StetServer[],
  ) {}

  static async over(engine: Engine): Promise<Site> {
    const servers = [];
    for (let index = 0; index < 2; index++) servers.push(await createServer({ engine, port: 0, limits }));
    return new Site(engine, await Relay.to(portOf(servers[0]!)), servers);
  }

  /** The next connections lead to the other server: to their clients this one was killed and came back. */
  restart(): void {
    this.servers.reverse();
    this.relay.target = portOf(this.servers[0]!);
  }

  /** The server goes away as on SIGTERM, and another takes its place. */
  async replace(): Promise<void> {
    const [leaving] = this.servers;
    this.restart();
    await leaving!.close();
    this.servers[1] = await createServer({ engine: this.engine, port: 0, limits });
  }

  async connect(options: ConnectOptions = {}) {
    const client = await connect(this.relay.url, { reconnect: soon, ...options });
    this.#cleanups.push(() => client.close());
    return client;
  }

  /** Everything is closed; no request may be left. */
  async close(): Promise<void> {
    for (const cleanup of this.#cleanups.splice(0)) await cleanup();
    this.relay.close();
    await Promise.all(this.servers.map((server) => server.close()));
    for (const server of this.servers)
      expect(server.stats()).toMatchObject({ streams: 0, detachedStreams: 0, keptBytes: 0 });
    expect(this.engine.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
  }
}

function portOf(server: StetServer): number {
  return Number(new URL(server.url).port);
}

async function answerOf(engine: Engine, request: OutgoingRequest): Promise<Reading> {
  return read(engine.generate(request) as AsyncIterable<ClientEvent>);
}

/** Nothing lost, nothing doubled: one stream, with the tokens, text, log-probabilities and hash of `whole`. */
function expectSame(reading: Reading, whole: Reading): void {
  expect(reading.error).toBeUndefined();
  expect(reading.tokens).toEqual(whole.tokens);
  expect(reading.text).toBe(whole.text);
  expect(logprobsOf(reading)).toEqual(logprobsOf(whole));
  const types = reading.events.map(({ type }) => type);
  expect([types[0], types.at(-1)]).toEqual(['accepted', 'done']);
  expect(types.filter((type) => type === 'accepted' || type === 'done')).toHaveLength(2);
  expect(hashOf(reading)).toBe(hashOf(whole));
  expectCandidatesInOrder(reading);
}

function logprobsOf({ events }: Reading): unknown[] {
  return events.flatMap((event) => (event.type === 'commit' ? (event.logprobs ?? []) : []));
}

function hashOf({ events }: Reading): string | undefined {
  return events.findLast((event) => event.type === 'commit')?.hash;
}

/** Candidates follow what is known, and are committed or withdrawn before others come. */
function expectCandidatesInOrder({ events }: Reading): void {
  let committed = 0;
  let known = 0;
  for (const event of events) {
    if (event.type === 'commit') {
      expect(event.from).toBe(committed);
      committed += event.tokens.length;
      known = Math.max(known, committed);
    } else if (event.type === 'provisional') {
      expect(event.from).toBe(known);
      known += event.tokens.length;
    } else if (event.type === 'rollback') {
      expect(event.to).toBeGreaterThanOrEqual(committed);
      known = event.to;
    }
  }
  expect(known).toBe(committed);
}

/** Bytes from the server after which connections break, and what happens then. */
const breaks = (maxBytes: number) =>
  fc.array(fc.record({ bytes: fc.integer({ min: 0, max: maxBytes }), next: fc.constantFrom('same', 'restart') }), {
    maxLength: 6,
  });

/** Breaks connections as planned while `run` reads. */
async function withBreaks<T>(
  site: Site,
  plan: readonly { readonly bytes: number; readonly next: string }[],
  run: () => Promise<T>,
): Promise<T> {
  const before = site.relay.connectionCount;
  site.relay.cutAfter(plan.map(({ bytes }) => bytes));
  // Each new connection but the first follows a break.
  const pending = [...plan];
  site.relay.onConnection = () => {
    const index = site.relay.connectionCount - before - 1;
    if (index > 0 && pending[index - 1]?.next === 'restart') site.restart();
  };
  try {
    return await run();
  } finally {
    site.relay.onConnection = () => {};
    site.relay.cutAfter([]);
  }
}

/** A request whose output and candidates come in every way that there is. */
const deterministicRequest = fc.record({
  prompt: fc.constantFrom('Once upon a time', 'The king', 'b'),
  maxTokens: fc.integer({ min: 1, max: 60 }),
  provisional: fc.boolean(),
  deterministic: fc.constant(true),
  ignoreEos: fc.constant(true),
});

describe('a client of a server whose connections break anywhere', () => {
  let site: Site;
  beforeAll(async () => {
    // Slow enough to be interrupted: each token takes a turn of the event loop.
    site = await Site.over(new ScriptedEngine({ textOf: (token) => `<${token}>` }));
  });
  afterAll(() => site.close());

  it('loses and doubles nothing of deterministic streams, on the same server or another', async () => {
    let runCount = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(deterministicRequest, { minLength: 1, maxLength: 3 }),
        breaks(6000),
        fc.option(fc.integer({ min: 1, max: 40 })),
        async (requests, plan, creditTokens) => {
          runCount++;
          const seeded = requests.map((request, index) => ({ ...request, seed: index, logprobs: 1 }));
          const wholes = await Promise.all(seeded.map((request) => answerOf(site.engine, request)));
          const client = await site.connect(creditTokens === null ? {} : { creditTokens });
          // That of `connect` is not broken.
          site.relay.cut();
          const readings = await withBreaks(site, plan, () =>
            Promise.all(seeded.map((request) => read(client.generate(request)))),
          );
          for (const [index, reading] of readings.entries()) expectSame(reading, wholes[index]!);
          await client.close();
        },
      ),
      { numRuns: 40, interruptAfterTimeLimit: 30_000, markInterruptAsFailure: false },
    );
    // Connections really broke amid streams.
    expect(site.relay.connectionCount).toBeGreaterThan(3 * runCount);
  });

  it('loses and doubles nothing of ordinary streams on the same server', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 200 }), breaks(6000), async (maxTokens, plan) => {
        const request = { prompt: 'p', maxTokens };
        const whole = await answerOf(site.engine, request);
        const client = await site.connect();
        site.relay.cut();
        const same = plan.map(({ bytes }) => ({ bytes, next: 'same' }));
        expectSame(await withBreaks(site, same, () => read(client.generate(request))), whole);
        await client.close();
      }),
      { numRuns: 20, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
    );
  });
});

describe('a server that goes away', () => {
  let site: Site;
  afterEach(() => site.close());

  it('hands its deterministic streams to the next, and ends its ordinary ones', async () => {
    site = await Site.over(new ScriptedEngine({ contextLength: 4096 }));
    const request = { prompt: 'p', deterministic: true, maxTokens: 2000, seed: 3 };
    const whole = await answerOf(site.engine, request);
    // What is not read waits on the server, so neither ends by itself.
    const client = await site.connect({ creditTokens: 64 });
    const moved = client.generate(request);
    const ended = client.generate({ prompt: 'p', maxTokens: 2000 });
    const first = [(await moved.next()).value!, (await moved.next()).value!];
    for (let count = 0; count < 2; count++) await ended.next();
    await site.replace();
    const rest = await read(moved);
    const { tokens, text } = first[1] as Extract<ClientEvent, { type: 'commit' }>;
    expectSame(
      {
        ...rest,
        events: [...first, ...rest.events],
        tokens: [...tokens, ...rest.tokens],
        text: text + rest.text,
      },
      whole,
    );
    expect((await read(ended)).error).toMatchObject({ code: 'STET_ERR_SHUTTING_DOWN', retryable: true });
  });
});

describe('a client of the embedded model', () => {
  let site: Site;
  beforeAll(async () => {
    const backend = cpuFeatures().available ? createCpuBackend({ threads: 1 }) : createReferenceBackend;
    const policy = dvr({ windowTokens: 6 });
    site = await Site.over(
      await createEngine({ model: 'tales', backend, format: 'bf16', policy, kv: { blockCount: 256 } }),
    );
  });
  afterAll(async () => {
    await site.close();
    await (site.engine as Engine).close();
  });

  it('gets the same answer over broken connections and restarted servers, with the same receipt', async () => {
    const request = {
      prompt: 'Once upon a time',
      deterministic: true,
      provisional: true,
      temperature: 1,
      seed: 8,
      maxTokens: 48,
      logprobs: 2,
      ignoreEos: true,
    } as const;
    const whole = await answerOf(site.engine, request);
    await fc.assert(
      fc.asyncProperty(breaks(4000), async (plan) => {
        const client = await site.connect();
        site.relay.cut();
        const reading = await withBreaks(site, plan, () => read(client.generate(request)));
        expectSame(reading, whole);
        const [receipt, expected] = [reading, whole].map(({ events }) => events.at(-1));
        expect(receipt).toMatchObject({ type: 'done', receipt: (expected as { receipt: object }).receipt });
        await client.close();
      }),
      { numRuns: 8, interruptAfterTimeLimit: 30_000, markInterruptAsFailure: false },
    );
  });
});
