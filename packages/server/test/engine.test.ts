import { type BackendFactory, isStetError } from '@stet/backend';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { createEngine, type GenerateEvent, type StetEngine } from '@stet/engine';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { dvr } from '@stet/scheduler';
import { createServer, type ServerLimits } from '@stet/server';
import type { CommitFrame } from '@stet/server/protocol';
import { talesFolder, talesName } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import { waitFor } from './support/harness.js';
import type { ObservedStream } from './support/stream-checker.js';
import { TestSocket } from './support/test-socket.js';

const cpu = cpuFeatures();
// The reference is slow, so it streams less.
const [backend, backendName, scale]: [BackendFactory, string, number] = cpu.available
  ? [createCpuBackend({ threads: 2 }), 'the CPU backend', 1]
  : [createReferenceBackend, `the reference backend, because the CPU backend is missing: ${cpu.reason}`, 0.2];

const prompt = 'Once upon a time, there was a little girl named Lily';
const request = {
  ...{ prompt, deterministic: true, seed: 5, temperature: 0.8, repetitionPenalty: 1.1 },
  ...{ logprobs: 2, maxTokens: 40 * scale },
} as const;

/** Runs the test against the embedded model behind a server; afterwards no block may be held. */
async function withServer(
  test: (url: string, engine: StetEngine, connect: () => Promise<TestSocket>) => Promise<void>,
  limits: Partial<ServerLimits> = {},
): Promise<void> {
  await using engine = await createEngine({
    model: loadModelFolder(talesFolder, { name: talesName }),
    backend,
    policy: dvr(),
    kv: { blockCount: 600 },
  });
  const sockets: TestSocket[] = [];
  await using server = await createServer({ engine, port: 0, limits: { drainMs: 0, ...limits } });
  await test(server.url, engine, async () => {
    const socket = await TestSocket.connect(server.url);
    sockets.push(socket);
    return socket;
  });
  await server.close();
  for (const { violation } of sockets) expect(violation).toBeUndefined();
  expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
}

function crowd(client: TestSocket, count: number): Promise<unknown>[] {
  return Array.from({ length: count }, (_, index) =>
    client.generate(`crowd ${index}`, {
      prompt: ['The king', 'One day Tim', 'A bear and a fox went'][index % 3],
      maxTokens: Math.ceil((10 + index * 3) * scale),
      temperature: (index % 3) / 2,
    }),
  );
}

describe(`the embedded model on ${backendName}, over a socket`, () => {
  it('streams a deterministic answer with the same bits alone, in a crowd and from the engine itself', async () => {
    await withServer(async (_, engine, connect) => {
      const direct: GenerateEvent[] = [];
      for await (const event of engine.generate(request)) direct.push(event);
      const commits = direct.filter((event) => event.type === 'commit');
      const end = direct.at(-1) as Extract<GenerateEvent, { type: 'done' }>;
      const client = await connect();
      for (const others of [0, 12]) {
        client.frames.length = 0;
        const around = crowd(client, others);
        const stream = await client.generate('mine', request);
        await Promise.all(around);
        expect(stream.tokens).toEqual(commits.flatMap(({ tokens }) => tokens));
        expect(stream.text).toBe(commits.map(({ text }) => text).join(''));
        expect(stream.hash).toBe(commits.at(-1)!.hash);
        expect(stream.end).toMatchObject({ type: 'done', receipt: end.receipt });
        const mine = client.frames.filter((frame) => frame.type === 'commit' && frame.id === 'mine');
        const logprobs = mine.flatMap((frame) => (frame.type === 'commit' ? frame.logprobs! : []));
        // JSON keeps every bit of a finite number.
        expect(logprobs).toEqual(commits.flatMap((commit) => commit.logprobs!));
      }
    });
  });

  it('shows candidates early, and ends with the same text', async () => {
    await withServer(async (_, __, connect) => {
      const client = await connect();
      const plain = await client.generate('a', request);
      const early = await client.generate('b', { ...request, provisional: true });
      expect([early.text, early.hash]).toEqual([plain.text, plain.hash]);
      expect(client.frames.some((frame) => frame.type === 'provisional')).toBe(true);
    });
  });

  it('computes a lost stream again on another server, wherever a commit ended, bit for bit', async () => {
    let whole: ObservedStream | undefined;
    const commits: CommitFrame[] = [];
    await withServer(async (_, __, connect) => {
      const client = await connect();
      whole = await client.generate('w', request);
      for (const frame of client.frames) if (frame.type === 'commit') commits.push(frame);
    });
    await withServer(async (_, engine, connect) => {
      const client = await connect();
      const around = crowd(client, 4);
      expect(engine.info.fingerprint).toBe(whole!.accepted!.fingerprint);
      const { seed } = whole!.accepted!;
      const ends = new Set([0, 1, Math.floor(commits.length / 2), commits.length - 1]);
      for (const end of [...ends].filter((index) => index < commits.length)) {
        const had = commits.slice(0, end + 1);
        const { from, tokens, hash } = had.at(-1)!;
        const after = from + tokens.length;
        client.frames.length = 0;
        const rest = await client.generate('again', { ...request, seed, after, hash });
        expect(rest.tokens).toEqual(whole!.tokens.slice(after));
        expect(had.map(({ text }) => text).join('') + rest.text).toBe(whole!.text);
        expect(rest.end).toMatchObject({ receipt: whole!.end!.type === 'done' ? whole!.end!.receipt : undefined });
        const sent = client.frames.filter((frame) => frame.type === 'commit' && frame.id === 'again') as CommitFrame[];
        expect([...had, ...sent].flatMap(({ logprobs }) => logprobs!)).toEqual(
          commits.flatMap(({ logprobs }) => logprobs!),
        );
      }
      await Promise.all(around);
    });
  });

  it('goes on with streams whose socket vanished, with the same bits', async () => {
    await withServer(async (_, engine, connect) => {
      const client = await connect();
      const whole = await client.generate('w', request);
      const vanishing = await connect();
      const lost = await vanishing.generateUntil('a', 1, { ...request, provisional: true });
      const received = { tokens: [...lost.tokens], text: lost.text };
      vanishing.socket.terminate();
      const rest = await client.resume('b', lost, { after: received.tokens.length });
      expect([...received.tokens, ...rest.tokens]).toEqual(whole.tokens);
      expect(received.text + rest.text).toBe(whole.text);
      expect(rest.end).toMatchObject({ receipt: whole.end!.type === 'done' ? whole.end!.receipt : undefined });
      await waitFor(() => engine.stats().blocks.held === 0, 'an idle engine');
    });
  });

  it('refuses what the model cannot do with the documented code, while another stream goes on', async () => {
    await withServer(async (_, engine, connect) => {
      const client = await connect();
      const maxTokens = 200 * scale;
      const goesOn = client.generate('open', { prompt, maxTokens, ignoreEos: true });
      const refused: [object, string][] = [
        [{ prompt: 'word '.repeat(2000) }, 'STET_ERR_CONTEXT_LENGTH'],
        // More characters than the context could hold are not even tokenized.
        [{ prompt: 'word '.repeat(100_000) }, 'STET_ERR_CONTEXT_LENGTH'],
        [{ prompt: undefined, promptTokens: new Array(100_000).fill(1) }, 'STET_ERR_CONTEXT_LENGTH'],
        [{ maxTokens: 1_000_000 }, 'STET_ERR_CONTEXT_LENGTH'],
        [{ maxTokens: -1 }, 'STET_ERR_BAD_REQUEST'],
        [{ prompt: undefined, promptTokens: [engine.info.vocabSize] }, 'STET_ERR_BAD_REQUEST'],
        [{ logitBias: { 999999999: 1 } }, 'STET_ERR_BAD_REQUEST'],
        [{ topP: 0 }, 'STET_ERR_BAD_REQUEST'],
        [{ prompt: undefined, promptTokens: [] }, 'STET_ERR_BAD_REQUEST'],
      ];
      const codes = [];
      for (const [index, [fields]] of refused.entries()) {
        const { end, frames } = await client.generate(`bad ${index}`, fields);
        codes.push(end!.type === 'error' && frames === 1 ? end!.code : end);
      }
      expect(codes).toEqual(refused.map(([, code]) => code));
      expect((await goesOn).tokens).toHaveLength(maxTokens);
    });
  });

  it.each([
    { name: 'where nothing is kept', limits: { resumeWindowMs: 0 } },
    { name: 'when their time is over', limits: { resumeWindowMs: 50 } },
  ])('frees the blocks of cancelled streams, and of those whose socket vanishes $name', async ({ limits }) => {
    await withServer(async (_, engine, connect) => {
      const client = await connect();
      const vanishing = await connect();
      const long = { prompt: `${prompt} `.repeat(8), maxTokens: 150, ignoreEos: true };
      const cancelled = ['a', 'b', 'c'].map((id) => client.generate(id, { ...long, deterministic: id === 'b' }));
      for (const id of ['x', 'y']) vanishing.send({ type: 'generate', id, ...long, deterministic: id === 'y' });
      client.send({ type: 'cancel', id: 'a' });
      await client.until(() => client.streams.get('b')!.tokens.length > 2, 'tokens');
      for (const id of ['b', 'c']) client.send({ type: 'cancel', id });
      for (const { end } of await Promise.all(cancelled)) expect(end).toMatchObject({ code: 'STET_ERR_ABORTED' });
      vanishing.socket.terminate();
      await waitFor(() => engine.stats().running === 0 && engine.stats().blocks.held === 0, 'an idle engine');
    }, limits);
  });

  it('ends its streams with a code when the engine is closed under it', async () => {
    await withServer(async (_, engine, connect) => {
      const client = await connect();
      const stream = client.generate('a', { prompt, maxTokens: 400, ignoreEos: true });
      await client.until(() => client.frames.length > 1, 'tokens');
      await engine.close();
      const { end } = await stream;
      expect(end).toMatchObject({ type: 'error', code: 'STET_ERR_ENGINE_CLOSED' });
      expect((await client.generate('b')).end).toMatchObject({ code: 'STET_ERR_ENGINE_CLOSED', seq: 0 });
      expect(isStetError(end)).toBe(false);
    });
  });
});
