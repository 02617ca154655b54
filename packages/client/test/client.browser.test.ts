import { type ClientEvent, connect, type OutgoingRequest, StreamError } from '@stet/client';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { answerCases } from '../../backend-webgpu/test/support/answer-cases.js';
import recorded from '../../backend-webgpu/test/vectors/answers.json';
import type {} from './support/page-server.js';

/** Long enough to be interrupted. */
const LONG = { prompt: 'The king', maxTokens: 900, ignoreEos: true, deterministic: true, seed: 4 } as const;

/** Asks the host of the servers, see support/page-server.ts. */
async function ask<T>(name: 'start' | 'startElsewhere' | 'cut' | 'load'): Promise<T> {
  const response = await fetch(`${inject('stetControls')}/${name}`, { method: 'POST' });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

async function connected() {
  return connect(await ask<string>('start'));
}

async function readAll(events: AsyncIterable<ClientEvent>): Promise<ClientEvent[]> {
  const read: ClientEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** Reads on after `first` commit and gives what is thrown. */
async function errorAfter(stream: AsyncIterable<ClientEvent>, first: () => unknown): Promise<StreamError> {
  let commitCount = 0;
  const reading = (async () => {
    for await (const event of stream) {
      expect(event.type).not.toBe('done');
      if (event.type === 'commit' && commitCount++ === 0) await first();
    }
  })();
  const error = await reading.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StreamError);
  expect(commitCount).toBeGreaterThan(0);
  return error as StreamError;
}

function caseOf(name: 'greedy' | 'nucleus' | 'penalties'): OutgoingRequest {
  const found = answerCases.find((one) => one.name === name);
  if (found?.kind !== 'generate') throw new Error(`there is no case ${name}`);
  return { ...found.request, deterministic: true };
}

describe('the client in a page', () => {
  // Nothing that a page gave up goes on.
  afterEach(async () => {
    await expect.poll(() => ask('load'), { timeout: 10_000 }).toEqual({ running: 0, held: 0 });
  });

  it.each(['greedy', 'nucleus', 'penalties'] as const)('streams the recorded answer to %s', async (name) => {
    await using client = await connected();
    const events = await readAll(client.generate(caseOf(name)));
    const { fingerprint, tokens, texts, receipts } = recorded[name];
    const commits = events.filter((event) => event.type === 'commit');
    expect(events[0]).toMatchObject({ type: 'accepted', fingerprint });
    expect(commits.flatMap((commit) => commit.tokens)).toEqual(tokens);
    expect(commits.map(({ text }) => text).join('')).toBe(texts[0]);
    expect(commits.at(-1)!.hash).toBe(receipts[0]!.outputHash);
    expect(events.at(-1)).toMatchObject({ type: 'done', receipt: receipts[0] });
  });

  it('gives a request the same hash whatever else streams over the socket', async () => {
    await using client = await connected();
    const names = ['greedy', 'nucleus', 'penalties'] as const;
    const others = [1, 2, 3, 4].map((seed) =>
      readAll(client.generate({ ...LONG, seed, maxTokens: 60, temperature: 1 })),
    );
    const answers = await Promise.all(names.map((name) => readAll(client.generate(caseOf(name)))));
    for (const [i, name] of names.entries())
      expect(answers[i]!.at(-1)).toMatchObject({ type: 'done', receipt: recorded[name].receipts[0] });
    expect(new Set((await Promise.all(others)).map((events) => JSON.stringify(events.at(-1)))).size).toBe(4);
    expect(await client.ping()).toBeGreaterThan(0);
  });

  it('shows candidates before they are verified when asked to', async () => {
    await using client = await connected();
    const request = { ...caseOf('nucleus'), provisional: true };
    const events = await readAll(client.generate(request));
    expect(events.some(({ type }) => type === 'provisional')).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: 'done', receipt: recorded.nucleus.receipts[0] });
  });

  it('stops at once on abort, and leaves the other streams alone', async () => {
    await using client = await connected();
    const other = readAll(client.generate(caseOf('greedy')));
    const abort = new AbortController();
    const error = await errorAfter(client.generate(LONG, { signal: abort.signal }), () => abort.abort());
    expect(error).toMatchObject({ code: 'STET_ERR_ABORTED', retryable: false });
    expect((await other).at(-1)).toMatchObject({ type: 'done', receipt: recorded.greedy.receipts[0] });
  });

  it('cancels a stream whose reader leaves', async () => {
    await using client = await connected();
    for await (const event of client.generate(LONG)) if (event.type === 'commit') break;
    expect(await client.ping()).toBeGreaterThan(0);
  });

  it('goes on when its connection is lost, as if nothing had been', async () => {
    const states: string[] = [];
    const url = await ask<string>('start');
    await using client = await connect(url, { onState: ({ kind }) => void states.push(kind) });
    const whole = await readAll(client.generate(LONG));
    const broken: ClientEvent[] = [];
    for await (const event of client.generate(LONG)) {
      broken.push(event);
      if (event.type === 'commit' && event.from === 0) expect(await ask('cut')).toBe(1);
    }
    const [expected, actual] = [whole, broken].map((events) => events.filter((event) => event.type === 'commit'));
    expect(actual!.flatMap(({ tokens }) => tokens)).toEqual(expected!.flatMap(({ tokens }) => tokens));
    expect(actual!.map(({ text }) => text).join('')).toBe(expected!.map(({ text }) => text).join(''));
    expect(actual!.at(-1)!.hash).toBe(expected!.at(-1)!.hash);
    expect(broken.filter(({ type }) => type === 'accepted')).toHaveLength(1);
    expect(states).toEqual(['connecting', 'open', 'offline', 'waiting', 'connecting', 'open']);
  });

  it('says that a connection was lost, where it is not to go on, and opens a new one for the next request', async () => {
    await using client = await connect(await ask<string>('start'), { reconnect: false });
    const error = await errorAfter(client.generate(LONG), async () => expect(await ask('cut')).toBe(1));
    expect(error).toMatchObject({
      code: 'STET_ERR_CONNECTION',
      message: 'the connection was closed (code 1006)',
      retryable: true,
    });
    const events = await readAll(client.generate(caseOf('greedy')));
    expect(events.at(-1)).toMatchObject({ type: 'done', receipt: recorded.greedy.receipts[0] });
  });

  it('throws the error of the server with its code', async () => {
    await using client = await connected();
    await expect(readAll(client.generate({ prompt: 'p', maxTokens: -1 }))).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
      message: expect.stringContaining('maxTokens'),
    });
  });

  it('cannot connect where no server is, nor to one that does not take its origin', async () => {
    await expect(connect('ws://127.0.0.1:1')).rejects.toMatchObject({ code: 'STET_ERR_CONNECTION' });
    await expect(connect(await ask<string>('startElsewhere'))).rejects.toMatchObject({ code: 'STET_ERR_CONNECTION' });
  });

  it('ends what runs when it is closed', async () => {
    const client = await connected();
    const error = await errorAfter(client.generate(LONG), () => client.close());
    expect(error).toMatchObject({ code: 'STET_ERR_ABORTED' });
    await client.close();
  });
});
