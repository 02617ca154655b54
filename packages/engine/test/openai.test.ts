import { describe, expect, it } from 'vitest';
import type { ChatCompletionChunk, ChatParams, TextCompletionChunk, TextParams } from '../src/index.js';
import { EOS, type FakeEngineOptions, fakeEngine, spell, until, utf8 } from './helpers.js';

const render = ({ messages }: { messages: readonly { role: string; content: unknown }[] }) =>
  messages.map((message) => `${message.role}:${message.content}`).join('|');
const messages = [{ role: 'user', content: 'yo' }];
const PROMPT = 'user:yo';

function spelling(text: string, options: FakeEngineOptions = {}) {
  const script = spell([...utf8(text), EOS], PROMPT.length);
  return fakeEngine({ model: { chatTemplate: { sources: new Map(), render } }, script, ...options });
}

async function collect<Chunk>(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe('chat.completions.create', () => {
  it('gives an answer in the shape of the API', async () => {
    await using fake = await spelling('Grüße');
    const answer = await fake.engine.chat.completions.create({ model: 'toy', messages, temperature: 0, seed: 4 });
    expect(answer).toEqual({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      created: expect.closeTo(Date.now() / 1000, -2),
      model: 'toy',
      system_fingerprint: fake.engine.info.fingerprint,
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Grüße', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: PROMPT.length,
        completion_tokens: 8,
        total_tokens: PROMPT.length + 8,
        prompt_tokens_details: { cached_tokens: 0 },
      },
      stet: { deterministic: false, seed: 4, windows: 0, rollbacks: 0 },
    });
  });

  it('streams chunks that spell the same answer: role first, then text, then the reason, then the usage', async () => {
    await using fake = await spelling('a🙂b', { mismatchRate: 0.5 });
    const params = { messages, seed: 1, temperature: 0, deterministic: true, logprobs: true, top_logprobs: 2 } as const;
    const whole = await fake.engine.chat.completions.create(params);
    const stream = await fake.engine.chat.completions.create({
      ...params,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect<ChatCompletionChunk>(stream);
    expect(new Set(chunks.map(({ id, created, object }) => `${id} ${created} ${object}`)).size).toBe(1);
    expect(chunks[0]!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' });
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('a🙂b');
    expect(chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? [])).toEqual(
      whole.choices[0]!.logprobs!.content,
    );
    expect(chunks.at(-2)).toMatchObject({
      choices: [{ delta: {}, finish_reason: 'stop' }],
      usage: null,
      stet: { deterministic: true, receipt: whole.stet.receipt! },
    });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 7 } });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  it('gives log-probabilities with the bytes of each token, also of parts of characters', async () => {
    await using fake = await spelling('é');
    const answer = await fake.engine.chat.completions.create({
      ...{ messages, temperature: 0, logprobs: true, top_logprobs: 3 },
    });
    const { content } = answer.choices[0]!.logprobs!;
    expect(content.map(({ token, bytes }) => ({ token, bytes }))).toEqual([
      { token: 'bytes:\\xc3', bytes: [0xc3] },
      { token: 'bytes:\\xa9', bytes: [0xa9] },
      { token: '', bytes: [] },
    ]);
    for (const { logprob, top_logprobs: top } of content) {
      expect(top.length).toBe(3);
      expect(top[0]!.logprob).toBe(logprob);
      expect(top[0]!.logprob).toBeGreaterThanOrEqual(top[1]!.logprob);
    }
  });

  it('uses all of the context where no length is given, and temperature 1', async () => {
    await using fake = await fakeEngine({
      model: { chatTemplate: { sources: new Map(), render } },
      contextLength: 400,
      mismatchRate: 0,
    });
    const run = () => fake.engine.chat.completions.create({ messages, ignore_eos: true });
    const [a, b] = await Promise.all([run(), run()]);
    expect(a.usage.total_tokens).toBe(400);
    expect(a.choices[0]).toMatchObject({ finish_reason: 'length' });
    expect(a.choices[0]!.message.content).not.toBe(b.choices[0]!.message.content);
  });

  it('takes content in parts, nulls as absent, and both names of maxTokens and of determinism', async () => {
    await using fake = await spelling('hello');
    const answer = await fake.engine.chat.completions.create({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'y' },
            { type: 'text', text: 'o' },
          ],
        },
      ],
      ...{ temperature: 0, top_p: null, stop: null, max_completion_tokens: 2, is_deterministic: true, user: 'me' },
    });
    expect(answer.choices[0]!.message.content).toBe('he');
    expect(answer.stet.deterministic).toBe(true);
  });

  const refused: [fault: Record<string, unknown>, named: RegExp][] = [
    [{ messages: 'hi' }, /^messages must be an array/],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /messages\[0\]\.content\[0\] must be a part/],
    [{ max_tokens: -1 }, /^max_tokens must be/],
    [{ max_completion_tokens: 0 }, /^max_completion_tokens must be/],
    [{ max_tokens: 3, max_completion_tokens: 4 }, /contradicts max_/],
    [{ deterministic: true, is_deterministic: false }, /contradicts/],
    [{ top_p: 2 }, /^top_p must be/],
    [{ frequency_penalty: 3 }, /^frequency_penalty must be/],
    [{ n: 0 }, /^n must be an integer in 1\.\.16, not 0/],
    [{ n: 17 }, /^n must be an integer in 1\.\.16, not 17/],
    [{ n: 2, best_of: 3 }, /^best_of is not supported with the value 3/],
    [{ repetition_penalty: 11 }, /^repetition_penalty must be a number in 0\.1\.\.10/],
    [{ tools: [{}] }, /^tools is not supported/],
    [{ response_format: { type: 'json_object' } }, /^response_format is not supported/],
    [{ logprobs: 3 }, /^logprobs must be true or false/],
    [{ top_logprobs: 3 }, /^top_logprobs needs logprobs/],
    [{ stream: 'yes' }, /^stream must be true or false/],
    [{ model: 'gpt-9' }, /model "gpt-9" is not served/],
    [{ deterministic: true, magic: 1 }, /unknown parameter "magic" in a deterministic request/],
  ];

  it.each(refused)('refuses %j in the words of the caller, before any answer', async (fault, named) => {
    await using fake = await spelling('x');
    const params = { messages, stream: true, ...fault } as unknown as ChatParams;
    await expect(fake.engine.chat.completions.create(params)).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
      message: expect.stringMatching(named),
    });
    expect(fake.backend.stepCount).toBe(0);
  });

  it('warns of unknown fields in an ordinary request', async () => {
    await using fake = await spelling('x');
    const params = { messages, magic: 1 } as unknown as ChatParams & { stream?: false };
    const answer = await fake.engine.chat.completions.create(params);
    expect(answer.stet.warnings).toEqual(['unknown parameter "magic" was ignored']);
  });

  it('refuses messages where the model has no chat template', async () => {
    await using fake = await fakeEngine();
    await expect(fake.engine.chat.completions.create({ messages })).rejects.toMatchObject({
      code: 'STET_ERR_BAD_CHAT_TEMPLATE',
    });
  });

  it('frees the request when the reader leaves, even before the first chunk, or its signal fires', async () => {
    await using fake = await fakeEngine({ model: { chatTemplate: { sources: new Map(), render } } });
    const params = { messages, stream: true, ignore_eos: true } as const;
    const idle = () => fake.engine.stats().running + fake.engine.stats().waiting;
    const untouched = await fake.engine.chat.completions.create(params);
    await untouched.return?.();
    expect(idle()).toBe(0);
    for await (const _ of await fake.engine.chat.completions.create(params)) break;
    expect(idle()).toBe(0);
    const controller = new AbortController();
    const stream = await fake.engine.chat.completions.create(params, { signal: controller.signal });
    const chunks = collect(stream);
    await until(() => fake.engine.stats().committedTokens > 5, 'it streams');
    controller.abort();
    await expect(chunks).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(idle()).toBe(0);
  });
});

describe('completions.create', () => {
  it('gives an answer in the shape of the API, 16 tokens long by default', async () => {
    await using fake = await fakeEngine();
    const answer = await fake.engine.completions.create({ prompt: 'once', temperature: 0, ignore_eos: true });
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^cmpl-/),
      object: 'text_completion',
      choices: [{ index: 0, text: expect.any(String), logprobs: null, finish_reason: 'length' }],
      usage: { prompt_tokens: 4, completion_tokens: 16, total_tokens: 20 },
    });
  });

  it('takes the four forms of a prompt, and refuses what is none', async () => {
    await using fake = await fakeEngine();
    const run = (prompt: unknown) =>
      fake.engine.completions.create({ prompt, temperature: 0, ignore_eos: true } as TextParams & { stream?: false });
    const answers = await Promise.all(['ab', ['ab'], [97, 98], [[97, 98]]].map(run));
    expect(new Set(answers.map((answer) => answer.choices[0]!.text)).size).toBe(1);
    for (const prompt of [undefined, 7, {}, [], [[]], [97, 'b'], ['a', 7], [[97], ['b']], ['a', null]])
      await expect(run(prompt)).rejects.toMatchObject({ code: 'STET_ERR_BAD_REQUEST' });
  });

  it('streams the same text and log-probabilities, with offsets that go on', async () => {
    await using fake = await spelling('aé🙂b', { mismatchRate: 0.5 });
    const params = { prompt: PROMPT, temperature: 0, logprobs: 2, deterministic: true } as const;
    const whole = await fake.engine.completions.create(params);
    expect(whole.choices[0]!.logprobs).toMatchObject({
      tokens: ['a', 'bytes:\\xc3', 'bytes:\\xa9', 'bytes:\\xf0', 'bytes:\\x9f', 'bytes:\\x99', 'bytes:\\x82', 'b', ''],
      text_offset: [0, 1, 1, 2, 2, 2, 2, 4, 5],
    });
    const chunks = await collect<TextCompletionChunk>(
      await fake.engine.completions.create({ ...params, stream: true }),
    );
    expect(chunks.map((chunk) => chunk.choices[0]!.text).join('')).toBe('aé🙂b');
    for (const key of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'] as const) {
      const pieces: unknown[] = chunks.flatMap((chunk): readonly unknown[] => chunk.choices[0]!.logprobs?.[key] ?? []);
      expect(pieces).toEqual(whole.choices[0]!.logprobs![key]);
    }
    expect(chunks.at(-1)).toMatchObject({ choices: [{ finish_reason: 'stop' }], stet: { deterministic: true } });
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
  });
});
