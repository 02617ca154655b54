import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChatCompletionChunk, deriveSeed, type TextCompletionChunk } from '../src/index.js';
import { type FakeEngine, fakeEngine, until, utf8 } from './helpers.js';

/** Two whole blocks of 16 and a bit. */
const PROMPT = 'once upon a time there was a small fox';
const WHOLE_BLOCKS = 32;
const SAMPLED = {
  ...{ prompt: PROMPT, seed: 11, temperature: 1, max_tokens: 40, ignore_eos: true, logprobs: 3 },
  deterministic: true,
} as const;

function expectIdle({ engine }: FakeEngine): void {
  const { running, waiting, blocks } = engine.stats();
  expect({ running, waiting, held: blocks.held }).toEqual({ running: 0, waiting: 0, held: 0 });
}

async function collect<Chunk>(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe('the seed of a choice', () => {
  it('is the published function of the seed of the request and its index', () => {
    const file = new URL('../../scheduler/test/sampling-vectors.json', import.meta.url);
    const { choiceSeeds } = JSON.parse(readFileSync(file, 'utf8')) as {
      choiceSeeds: { seed: number; choice: number; derived: number }[];
    };
    expect(choiceSeeds.length).toBeGreaterThan(10);
    for (const { seed, choice, derived } of choiceSeeds) expect(deriveSeed(seed, choice)).toBe(derived);
    expect(deriveSeed(42, 1)).toBe(3268914672825583);
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 1, max: 2 ** 32 - 1 }), (seed, choice) => {
        const bytes = Buffer.alloc(12);
        bytes.writeBigUInt64LE(BigInt(seed));
        bytes.writeUInt32LE(choice, 8);
        const digest = createHash('sha256').update('stet choice 1').update(bytes).digest();
        expect(deriveSeed(seed, choice)).toBe(Number(digest.readBigUInt64LE() & 0x1fffffffffffffn));
      }),
    );
  });
});

describe('several choices of one call', () => {
  it.each(['dvr', 'direct', 'auto'] as const)(
    'are, bit for bit, the answers that their seeds give alone, under %s',
    async (policy) => {
      const options = { mismatchRate: 0.2, engine: { policy } };
      await using fake = await fakeEngine(options);
      const answer = await fake.engine.completions.create({ ...SAMPLED, n: 5 });
      expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
      expect(new Set(answer.choices.map(({ text }) => text)).size).toBe(5);
      expect(answer.stet.receipt).toBeUndefined();
      for (const { index, text, logprobs } of answer.choices) {
        await using other = await fakeEngine(options);
        const seed = deriveSeed(SAMPLED.seed, index);
        const alone = await other.engine.completions.create({ ...SAMPLED, seed });
        expect(text).toBe(alone.choices[0]!.text);
        expect(JSON.stringify(logprobs)).toBe(JSON.stringify(alone.choices[0]!.logprobs));
        expect(answer.stet.receipts![index]).toEqual(alone.stet.receipt);
        expect(answer.stet.receipts![index]!.seed).toBe(seed);
      }
      expectIdle(fake);
    },
  );

  it('run the prompt once: the others find its whole blocks in the prefix cache', async () => {
    for (const deterministic of [true, false]) {
      await using fake = await fakeEngine();
      await fake.engine.completions.create({ ...SAMPLED, deterministic, n: 4 });
      const rows = fake.backend.log.flatMap(({ fast, canonical }) => [fast, canonical]);
      const atStart = rows.flatMap((batch) => batch?.sequences.filter(({ position }) => position === 0) ?? []);
      expect(atStart.length).toBe(1);
      const behind = rows.flatMap((batch) => batch?.sequences.filter((one) => one.position === WHOLE_BLOCKS) ?? []);
      expect(behind.map(({ tokens }) => tokens)).toEqual(Array(3).fill(utf8(PROMPT).slice(WHOLE_BLOCKS)));
      expect(new Set(behind.flatMap(({ blocks }) => blocks.slice(0, 2))).size).toBe(2);
    }
  });

  it('count the prompt once and all outputs', async () => {
    await using fake = await fakeEngine();
    const { usage } = await fake.engine.completions.create({ ...SAMPLED, n: 3 });
    const promptTokens = utf8(PROMPT).length;
    expect(usage).toEqual({
      prompt_tokens: promptTokens,
      completion_tokens: 120,
      total_tokens: promptTokens + 120,
      prompt_tokens_details: { cached_tokens: 0 },
    });
    const again = await fake.engine.completions.create({ ...SAMPLED, n: 3 });
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(WHOLE_BLOCKS);
  });

  it('stream side by side and spell the same answers, with one usage at the end', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.3 });
    const whole = await fake.engine.completions.create({ ...SAMPLED, n: 3 });
    const chunks = await collect<TextCompletionChunk>(
      await fake.engine.completions.create({ ...SAMPLED, n: 3, stream: true, stream_options: { include_usage: true } }),
    );
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { ...whole.usage, prompt_tokens_details: {} } });
    const of = (index: number) => chunks.filter((chunk) => chunk.choices[0]?.index === index);
    for (const [index, choice] of whole.choices.entries()) {
      expect(
        of(index)
          .map((chunk) => chunk.choices[0]!.text)
          .join(''),
      ).toBe(choice.text);
      expect(of(index).flatMap((chunk) => chunk.choices[0]!.logprobs?.token_logprobs ?? [])).toEqual(
        choice.logprobs!.token_logprobs,
      );
      expect(of(index).at(-1)).toMatchObject({
        choices: [{ finish_reason: 'length' }],
        stet: { seed: deriveSeed(SAMPLED.seed, index), receipt: whole.stet.receipts![index]! },
      });
    }
    const order = chunks.slice(0, -1).map((chunk) => chunk.choices[0]!.index);
    const changes = order.filter((index, i) => i > 0 && index !== order[i - 1]).length;
    expect(changes).toBeGreaterThan(4);
  });

  it('of a chat begin with a role each', async () => {
    const render = ({ messages }: { messages: readonly { role: string; content: unknown }[] }) =>
      messages.map((message) => `${message.role}:${message.content}`).join('|');
    await using fake = await fakeEngine({ model: { chatTemplate: { sources: new Map(), render } } });
    const params = { messages: [{ role: 'user', content: 'yo' }], seed: 3, max_tokens: 9, ignore_eos: true, n: 2 };
    const whole = await fake.engine.chat.completions.create({ ...params, deterministic: true });
    expect(whole.choices.map(({ index, message }) => [index, message.role])).toEqual([
      [0, 'assistant'],
      [1, 'assistant'],
    ]);
    const stream = await fake.engine.chat.completions.create({ ...params, deterministic: true, stream: true });
    const chunks = await collect<ChatCompletionChunk>(stream);
    expect(chunks.slice(0, 2).map(({ choices: [one] }) => [one!.index, one!.delta])).toEqual([
      [0, { role: 'assistant', content: '' }],
      [1, { role: 'assistant', content: '' }],
    ]);
    for (const [index, { message }] of whole.choices.entries()) {
      const own = chunks.filter((chunk) => chunk.choices[0]!.index === index);
      expect(own.map((chunk) => chunk.choices[0]!.delta.content ?? '').join('')).toBe(message.content);
    }
  });

  it('end together when the signal fires, with one listener on it', async () => {
    for (const stream of [true, false]) {
      await using fake = await fakeEngine();
      const controller = new AbortController();
      const { signal } = controller;
      let listeners = 0;
      signal.addEventListener = (...args: Parameters<EventTarget['addEventListener']>) => {
        listeners++;
        EventTarget.prototype.addEventListener.apply(signal, args);
      };
      const params = { ...SAMPLED, max_tokens: 200, n: 16, stream };
      const call = fake.engine.completions
        .create(params, { signal })
        .then((answer): unknown => (Symbol.asyncIterator in answer ? collect<TextCompletionChunk>(answer) : answer));
      const failed = expect(call).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
      await until(() => fake.engine.stats().committedTokens > 40, 'the choices run');
      expect(fake.engine.stats().running).toBeGreaterThan(1);
      controller.abort();
      expectIdle(fake);
      await failed;
      expect(listeners).toBe(1);
    }
  });

  it('end together when the reader leaves the stream', async () => {
    await using fake = await fakeEngine();
    const params = { ...SAMPLED, max_tokens: 200, n: 4, stream: true } as const;
    const untouched = await fake.engine.completions.create(params);
    await untouched.return?.();
    expectIdle(fake);
    for await (const _ of await fake.engine.completions.create(params)) break;
    expectIdle(fake);
  });

  it('end together when one of them fails', async () => {
    for (const stream of [true, false]) {
      await using fake = await fakeEngine();
      // The first step has the prompt of choice 0 alone; the others are admitted after it.
      fake.backend.failNext();
      const call = fake.engine.completions
        .create({ ...SAMPLED, max_tokens: 200, n: 3, stream })
        .then((answer): unknown => (Symbol.asyncIterator in answer ? collect<TextCompletionChunk>(answer) : answer));
      await expect(call).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_FAILED' });
      expectIdle(fake);
      expect(fake.engine.stats().committedTokens).toBeLessThan(400);
    }
  });

  it('are all refused when the queue has no room for one of them', async () => {
    await using fake = await fakeEngine({ engine: { limits: { maxWaiting: 3 } } });
    await expect(fake.engine.completions.create({ ...SAMPLED, n: 4 })).rejects.toMatchObject({
      code: 'STET_ERR_QUEUE_FULL',
    });
    expectIdle(fake);
    expect((await fake.engine.completions.create({ ...SAMPLED, n: 3 })).choices.length).toBe(3);
  });

  it('are at most as many as the engine allows, and best_of leaves none out', async () => {
    await using fake = await fakeEngine({ engine: { limits: { maxChoices: 2 } } });
    const params = { ...SAMPLED, max_tokens: 2 };
    expect((await fake.engine.completions.create({ ...params, n: 2 })).choices.length).toBe(2);
    await expect(fake.engine.completions.create({ ...params, n: 3 })).rejects.toMatchObject({
      message: 'n must be an integer in 1..2, not 3',
    });
    const withBestOf = { ...params, n: 2, best_of: 2 };
    expect((await fake.engine.completions.create(withBestOf)).choices.length).toBe(2);
  });
});
