import { readFileSync } from 'node:fs';
import { deriveSeed, type GenerateEvent, type StetBlock } from '@stet/engine';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import {
  chatChunkSchema,
  chatCompletionSchema,
  errorSchema,
  modelListSchema,
  textChunkSchema,
  textCompletionSchema,
} from '../src/openai/answer-schemas.js';
import { waitFor } from './support/harness.js';
import { runModule } from './support/run-module.js';
import { backendName, scale, talesServers } from './support/tales-server.js';
import { TestSocket } from './support/test-socket.js';

type ChatParams = OpenAI.ChatCompletionCreateParamsNonStreaming;
type TextParams = OpenAI.CompletionCreateParamsNonStreaming;
/** What Stet adds to every answer. */
type WithStet = { readonly stet: StetBlock };

const PROMPT = 'Once upon a time, there was a little girl named Lily';
const tokens = Math.ceil(40 * scale);
const chat: ChatParams & { deterministic: boolean } = {
  model: 'tales',
  messages: [{ role: 'user', content: PROMPT }],
  ...{ deterministic: true, seed: 5, temperature: 0.8, max_tokens: tokens },
};
const text: TextParams & { deterministic: boolean } = {
  ...{ model: 'tales', prompt: PROMPT, deterministic: true, seed: 5, temperature: 0.8, max_tokens: tokens },
};

/** Never ends before the context does. */
const endless = { temperature: 1, ignore_eos: true, max_tokens: 400 };

async function collect<Chunk>(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe(`the openai client and the embedded model on ${backendName}`, { timeout: 120_000 }, () => {
  const tales = talesServers();

  it('lists and retrieves the model', async () => {
    const client = tales.client();
    const models = await collect(await client.models.list());
    expect(models).toEqual([{ id: 'tales', object: 'model', created: expect.any(Number), owned_by: 'stet' }]);
    expect(await client.models.retrieve('tales')).toMatchObject({ id: 'tales' });
    modelListSchema.parse(await (await fetch(`${tales.server.url}/v1/models`)).json());
    for (const name of ['gpt-9', '%', 'a/b'])
      await expect(client.models.retrieve(name)).rejects.toMatchObject({ status: 404 });
    expect((await fetch(`${tales.server.url}/v1/models/%`)).status).toBe(404);
    await expect(client.models.retrieve('gpt-9')).rejects.toMatchObject({
      ...{ code: 'STET_ERR_UNKNOWN_MODEL', param: 'model' },
    });
  });

  it('answers a chat as the engine does, with the seed, the fingerprint and a request id', async () => {
    const direct = await tales.engine.chat.completions.create({
      ...chat,
      messages: [{ role: 'user', content: PROMPT }],
    });
    const answer = await tales.client().chat.completions.create(chat);
    const { _request_id: requestId, ...plain } = answer;
    chatCompletionSchema.parse(plain);
    expect(requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect(answer.choices).toEqual(direct.choices);
    expect(answer.system_fingerprint).toBe(tales.engine.info.fingerprint);
    expect((answer as typeof answer & WithStet).stet).toMatchObject({ seed: 5, receipt: direct.stet.receipt });
    expect(answer.usage).toMatchObject({ completion_tokens: direct.usage.completion_tokens });
  });

  it('streams the same, and the usage only where it is asked for', async () => {
    const client = tales.client();
    const whole = await client.chat.completions.create(chat);
    const params = { ...chat, stream: true } as const;
    for (const asks of [false, true]) {
      const stream = await client.chat.completions.create({
        ...{ ...params, stream_options: { include_usage: asks, include_obfuscation: false } },
      });
      const chunks = await collect(stream);
      for (const chunk of chunks) chatChunkSchema.parse(chunk);
      expect(chunks[0]!.choices[0]!.delta).toEqual({ role: 'assistant', content: '' });
      expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(
        whole.choices[0]!.message.content,
      );
      expect(chunks.findLast((chunk) => chunk.choices.length > 0)!.choices[0]).toMatchObject({
        ...{ delta: {}, finish_reason: whole.choices[0]!.finish_reason },
      });
      expect(chunks.every((chunk) => chunk.system_fingerprint === whole.system_fingerprint)).toBe(true);
      if (asks) {
        expect(chunks.at(-1)).toMatchObject({
          choices: [],
          usage: { ...whole.usage!, prompt_tokens_details: { cached_tokens: expect.any(Number) } },
        });
        expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
      } else expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false);
    }
  });

  it('sends server-sent events with the headers that proxies need, and [DONE] at the end', async () => {
    const response = await fetch(`${tales.server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json; charset=utf-8' },
      body: JSON.stringify({ ...chat, stream: true }),
    });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.any(String),
    });
    const body = await response.text();
    const events = body.split('\n\n');
    expect(events.slice(-2)).toEqual(['data: [DONE]', '']);
    for (const event of events.slice(0, -2)) chatChunkSchema.parse(JSON.parse(event.replace(/^data: /, '')));
  });

  it('gives several choices, each by a seed that can be asked for alone', async () => {
    const client = tales.client();
    const both = await client.chat.completions.create({ ...chat, n: 2 });
    const second = await client.chat.completions.create({ ...chat, seed: deriveSeed(5, 1) });
    expect(both.choices.map(({ index }) => index)).toEqual([0, 1]);
    expect(both.choices[1]!.message.content).toBe(second.choices[0]!.message.content);
    const chunks = await collect(await client.chat.completions.create({ ...chat, n: 2, stream: true }));
    for (const { index, message } of both.choices) {
      const own = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(message.content);
    }
  });

  it('ends at a stop string and tells log-probabilities', async () => {
    const client = tales.client();
    const plain = await client.chat.completions.create({ ...chat, temperature: 0 });
    const word = plain.choices[0]!.message.content!.trim().split(' ')[3]!;
    const answer = await client.chat.completions.create({
      ...{ ...chat, temperature: 0, stop: [word], logprobs: true, top_logprobs: 3 },
    });
    const [choice] = answer.choices;
    expect(choice!.finish_reason).toBe('stop');
    expect(plain.choices[0]!.message.content!.startsWith(choice!.message.content!)).toBe(true);
    expect(choice!.message.content).not.toContain(word);
    const { content } = choice!.logprobs!;
    expect(content!.length).toBe(answer.usage!.completion_tokens);
    for (const { token, logprob, bytes, top_logprobs: top } of content!) {
      expect(new TextDecoder().decode(Uint8Array.from(bytes!))).toBe(token);
      expect(top.map((one) => one.logprob).sort((a, b) => b - a)).toEqual(top.map((one) => one.logprob));
      expect(top[0]!.logprob).toBeGreaterThanOrEqual(logprob);
    }
  });

  it('completes a text and echoes its prompt with log-probabilities, streaming and not', async () => {
    const client = tales.client();
    const params = { ...text, echo: true, logprobs: 2 };
    const answer = await client.completions.create(params);
    const { _request_id: _id, ...plain } = answer;
    textCompletionSchema.parse(plain);
    const [choice] = answer.choices;
    const { tokens: labels, token_logprobs: scores, text_offset: offsets } = choice!.logprobs!;
    expect(choice!.text.startsWith(PROMPT)).toBe(true);
    expect(labels!.length).toBe(answer.usage!.total_tokens);
    expect(scores![0]).toBeNull();
    expect(scores!.slice(1).every((score) => score! <= 0)).toBe(true);
    expect(offsets![answer.usage!.prompt_tokens]).toBe(PROMPT.length);
    const chunks = await collect(await client.completions.create({ ...params, stream: true }));
    for (const chunk of chunks) textChunkSchema.parse(chunk);
    expect(chunks.map((chunk) => chunk.choices[0]!.text).join('')).toBe(choice!.text);
    expect(chunks.flatMap((chunk) => chunk.choices[0]!.logprobs?.token_logprobs ?? [])).toEqual(scores);
  });

  it('answers several prompts at once, as each alone', async () => {
    const client = tales.client();
    const prompts = [PROMPT, 'The king'];
    const { _request_id: _id, ...together } = await client.completions.create({ ...text, prompt: prompts });
    textCompletionSchema.parse(together);
    for (const [index, prompt] of prompts.entries()) {
      const { choices } = await client.completions.create({ ...text, prompt });
      expect(together.choices[index]).toEqual({ ...choices[0], index });
    }
  });

  it('scores a prompt without any output, as evaluation harnesses ask', async () => {
    const answer = await tales.client().completions.create({
      ...{ model: 'tales', prompt: PROMPT, max_tokens: 0, echo: true, logprobs: 1 },
    });
    expect(answer.choices[0]!.text).toBe(PROMPT);
    expect(answer.choices[0]!.logprobs!.token_logprobs!.length).toBe(answer.usage!.prompt_tokens);
    expect(answer.usage!.completion_tokens).toBe(0);
  });

  it('gives the same text over HTTP, over a socket and from the engine itself, in a crowd too', async () => {
    const client = tales.client();
    const request = { prompt: PROMPT, deterministic: true, seed: 5, temperature: 0.8, maxTokens: tokens };
    const direct: GenerateEvent[] = [];
    for await (const event of tales.engine.generate(request)) direct.push(event);
    const story = direct.map((event) => (event.type === 'commit' ? event.text : '')).join('');
    const { receipt } = direct.at(-1) as Extract<GenerateEvent, { type: 'done' }>;
    const socket = await TestSocket.connect(tales.server.url);
    const crowd = Array.from({ length: 8 }, (_, i) =>
      client.completions.create({ model: 'tales', prompt: 'The king', max_tokens: 5 + i, temperature: 1 }),
    );
    const [overSocket, overHttp, chunks] = await Promise.all([
      socket.generate('mine', request),
      client.completions.create(text),
      client.completions.create({ ...text, stream: true }).then(collect),
      ...crowd,
    ]);
    expect(overSocket.text).toBe(story);
    expect(overSocket.hash).toBe(receipt!.outputHash);
    expect(overHttp.choices[0]!.text).toBe(story);
    expect((overHttp as typeof overHttp & WithStet).stet.receipt).toEqual(receipt);
    expect(chunks.map((chunk) => chunk.choices[0]!.text).join('')).toBe(story);
    expect((chunks.at(-1) as unknown as WithStet).stet.receipt).toEqual(receipt);
    socket.socket.close();
  });

  it('frees the request when the client breaks off, aborts in mid-stream, or does not wait for the prefill', async () => {
    const client = tales.client();
    const params = { ...endless, model: 'tales', prompt: PROMPT, stream: true } as const;
    const idle = () =>
      waitFor(() => tales.engine.stats().running + tales.engine.stats().waiting === 0, 'an idle engine', 60_000);
    for await (const _ of await client.completions.create(params)) break;
    await idle();
    const stream = await client.completions.create(params);
    let heard = 0;
    for await (const _ of stream) if (++heard === 3) stream.controller.abort();
    expect(heard).toBeGreaterThanOrEqual(3);
    await idle();
    const long = { ...params, max_tokens: 40, prompt: `${PROMPT} `.repeat(30) };
    const controller = new AbortController();
    const unread = await client.completions.create(long, { signal: controller.signal });
    controller.abort();
    expect(await collect(unread)).toEqual([]);
    await idle();
    const impatient = new AbortController();
    const whole = client.completions.create({ ...long, stream: false }, { signal: impatient.signal });
    const refused = expect(whole).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await waitFor(() => tales.engine.stats().running > 0, 'the prefill', 60_000);
    impatient.abort();
    await refused;
    await idle();
    expect(tales.engine.stats().blocks.held).toBe(0);
  });

  it('can be read twice by tee', async () => {
    const stream = await tales.client().chat.completions.create({ ...chat, stream: true });
    const [left, right] = stream.tee();
    const [a, b] = await Promise.all([collect(left), collect(right)]);
    expect(a.length).toBeGreaterThan(2);
    expect(b).toEqual(a);
  });

  const refused: [fault: object, status: number, expected: object][] = [
    [{ temperature: -1 }, 400, { code: 'STET_ERR_BAD_REQUEST', param: 'temperature' }],
    [{ max_tokens: 0 }, 400, { code: 'STET_ERR_BAD_REQUEST', param: 'max_tokens' }],
    [{ messages: 'hi' }, 400, { code: 'STET_ERR_BAD_REQUEST', param: 'messages' }],
    [{ n: 99 }, 400, { code: 'STET_ERR_BAD_REQUEST', param: 'n' }],
    [{ magic: 1 }, 400, { code: 'STET_ERR_BAD_REQUEST', param: null }],
    [{ max_tokens: 100_000 }, 400, { code: 'STET_ERR_CONTEXT_LENGTH' }],
    [{ model: 'gpt-9' }, 404, { code: 'STET_ERR_UNKNOWN_MODEL', param: 'model' }],
  ];

  it.each(refused)('refuses %j with %i, streaming or not', async (fault, status, expected) => {
    for (const stream of [false, true]) {
      const answer = tales.client().chat.completions.create({ ...chat, ...fault, stream });
      await expect(answer).rejects.toBeInstanceOf(status === 404 ? OpenAI.NotFoundError : OpenAI.BadRequestError);
      await expect(answer).rejects.toMatchObject({ status, ...expected, requestID: expect.any(String) });
    }
  });

  it('warns of unknown fields in an ordinary request', async () => {
    const params = { ...chat, deterministic: false, magic: 1, max_tokens: 1 };
    const answer = await tales.client().chat.completions.create(params);
    expect((answer as typeof answer & WithStet).stet.warnings).toEqual(['unknown parameter "magic" was ignored']);
  });

  it('is streamed from by the lines of docs/PROTOCOL.md', async () => {
    const page = readFileSync(new URL('../../../docs/PROTOCOL.md', import.meta.url), 'utf8');
    const lines = /```js\n(import OpenAI.*?)```/s.exec(page)![1]!;
    const script = lines.replace('127.0.0.1:8642', new URL(tales.server.url).host);
    expect(script).not.toBe(lines);
    const { output, exitCode } = await runModule(script);
    expect(exitCode).toBe(0);
    expect(output.length).toBeGreaterThan(16);
  });

  it('asks for a key where there are keys', async () => {
    const { url } = await tales.serve({ keys: [{ name: 'me', key: 'stet-key-of-a-test-0123456789' }] });
    const stranger = tales.client({ baseURL: `${url}/v1`, apiKey: 'wrong' });
    await expect(stranger.chat.completions.create(chat)).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(stranger.models.list()).rejects.toMatchObject({ status: 401, code: 'STET_ERR_UNAUTHORIZED' });
    const me = tales.client({ baseURL: `${url}/v1`, apiKey: 'stet-key-of-a-test-0123456789' });
    expect((await me.chat.completions.create({ ...chat, max_tokens: 2 })).usage!.completion_tokens).toBe(2);
  });

  it('says 429 to a key that runs all that it may, and when to come back', async () => {
    const key = 'stet-key-of-a-test-0123456789';
    const { url } = await tales.serve({ keys: [{ name: 'me', key, limits: { maxStreams: 2 } }] });
    const client = tales.client({ baseURL: `${url}/v1`, apiKey: key });
    const params = { ...endless, model: 'tales', prompt: PROMPT } as const;
    const running = await client.completions.create({ ...params, n: 2, stream: true });
    const refusedError = await client.completions.create(params).catch((error: unknown) => error);
    expect(refusedError).toBeInstanceOf(OpenAI.RateLimitError);
    const { headers, error } = refusedError as InstanceType<typeof OpenAI.RateLimitError>;
    expect(headers!.get('retry-after')).toBe('1');
    expect(headers!.get('retry-after-ms')).toBe('1000');
    errorSchema.parse({ error });
    running.controller.abort();
    await collect(running);
    await waitFor(() => tales.engine.stats().running === 0, 'an idle engine', 60_000);
    expect((await client.completions.create({ ...params, max_tokens: 1 })).choices).toHaveLength(1);
    await expect(client.completions.create({ ...params, n: 3 })).rejects.toMatchObject({ status: 400 });
  });
});
