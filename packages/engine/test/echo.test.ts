import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import { loadModelFolder } from '@stet/model/node';
import { talesFolder, talesName } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import { createEngine, type TextCompletion, type TextCompletionChunk, type TextParams } from '../src/index.js';
import { type FakeEngineOptions, fakeEngine, spell, utf8 } from './helpers.js';

const PROMPT = 'aé🙂b';

/** Spells xyz after the prompt. */
function spelling(options: FakeEngineOptions = {}) {
  return fakeEngine({ script: spell(utf8('xyzxyz'), utf8(PROMPT).length), mismatchRate: 0.5, ...options });
}

async function collect(stream: AsyncIterable<TextCompletionChunk>): Promise<TextCompletionChunk[]> {
  const chunks: TextCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

type Logprobs = NonNullable<TextCompletion['choices'][number]['logprobs']>;

function joined(chunks: readonly TextCompletionChunk[], index: number) {
  const choices = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
  const column = (key: keyof Logprobs): unknown[] =>
    choices.flatMap((choice): readonly unknown[] => choice.logprobs?.[key] ?? []);
  return {
    text: choices.map((choice) => choice.text).join(''),
    logprobs: {
      tokens: column('tokens'),
      token_logprobs: column('token_logprobs'),
      top_logprobs: column('top_logprobs'),
      text_offset: column('text_offset'),
    },
  };
}

describe('completions.create with echo', () => {
  it('begins with the prompt and its log-probabilities, of which the first token has none', async () => {
    await using fake = await spelling();
    const answer = await fake.engine.completions.create({
      ...{ prompt: PROMPT, echo: true, logprobs: 2, max_tokens: 3, temperature: 0 },
    });
    const [choice] = answer.choices;
    expect(choice!.text).toBe(`${PROMPT}xyz`);
    expect(choice!.logprobs).toMatchObject({
      tokens: [
        ...['a', 'bytes:\\xc3', 'bytes:\\xa9', 'bytes:\\xf0', 'bytes:\\x9f', 'bytes:\\x99', 'bytes:\\x82', 'b'],
        ...['x', 'y', 'z'],
      ],
      text_offset: [0, 1, 1, 2, 2, 2, 2, 4, 5, 6, 7],
    });
    const { token_logprobs: scores, top_logprobs: tops } = choice!.logprobs!;
    expect([scores[0], tops[0]]).toEqual([null, null]);
    expect(scores.slice(1).every((score) => score! < 0)).toBe(true);
    expect(tops.slice(1).every((top) => Object.keys(top!).length === 2)).toBe(true);
    expect(answer.usage).toMatchObject({ prompt_tokens: 8, completion_tokens: 3, total_tokens: 11 });
  });

  it('streams the same, the prompt first, for every choice', async () => {
    await using fake = await spelling();
    const params = { prompt: PROMPT, echo: true, logprobs: 1, max_tokens: 4, n: 3, seed: 5 } as const;
    const whole = await fake.engine.completions.create(params);
    const chunks = await collect(await fake.engine.completions.create({ ...params, stream: true }));
    for (const { index, text, logprobs } of whole.choices) {
      expect(joined(chunks, index)).toEqual({ text, logprobs });
      expect(chunks.find((chunk) => chunk.choices[0]!.index === index)!.choices[0]!.text).toBe(PROMPT);
    }
  });

  it('gives nothing but the prompt where max_tokens is 0', async () => {
    await using fake = await spelling();
    const params = { prompt: PROMPT, echo: true, logprobs: 0, max_tokens: 0 } as const;
    const answer = await fake.engine.completions.create(params);
    expect(answer.choices[0]).toMatchObject({ text: PROMPT, finish_reason: 'length' });
    expect(answer.choices[0]!.logprobs!.tokens).toHaveLength(8);
    expect(answer.usage).toMatchObject({ prompt_tokens: 8, completion_tokens: 0, total_tokens: 8 });
    expect(answer.stet.receipt).toBeUndefined();
    const chunks = await collect(await fake.engine.completions.create({ ...params, stream: true }));
    expect(joined(chunks, 0)).toEqual({ text: PROMPT, logprobs: answer.choices[0]!.logprobs });
    expect(chunks.at(-1)!.choices[0]).toMatchObject({ text: '', finish_reason: 'length' });
  });

  it('is deterministic with log-probabilities, unless the request says otherwise', async () => {
    await using fake = await spelling();
    const run = async (params: Omit<TextParams, 'prompt' | 'stream'>) => {
      const answer = await fake.engine.completions.create({ prompt: PROMPT, echo: true, max_tokens: 2, ...params });
      return answer.stet.deterministic;
    };
    expect(await run({ logprobs: 1 })).toBe(true);
    expect(await run({ logprobs: 1, deterministic: false })).toBe(false);
    expect(await run({})).toBe(false);
  });

  it('works without log-probabilities and with a prompt of tokens', async () => {
    await using fake = await spelling({ mismatchRate: 0 });
    const answer = await fake.engine.completions.create({
      ...{ prompt: utf8(PROMPT), echo: true, max_tokens: 1, temperature: 0 },
    });
    expect(answer.choices[0]).toMatchObject({ text: `${PROMPT}x`, logprobs: null });
  });

  it('refuses no output without echo, and an echo that is neither true nor false', async () => {
    await using fake = await spelling();
    const run = (params: object) =>
      fake.engine.completions.create({ prompt: PROMPT, ...params } as TextParams & { stream?: false });
    await expect(run({ max_tokens: 0 })).rejects.toMatchObject({ message: expect.stringMatching(/^max_tokens must/) });
    await expect(run({ echo: 1 })).rejects.toMatchObject({ message: expect.stringMatching(/^echo must be/) });
    await expect(run({ echo: true, logprobs: 21 })).rejects.toMatchObject({
      message: expect.stringMatching(/^logprobs must be/),
    });
  });
});

const cpu = cpuFeatures();
const title = cpu.available ? 'the CPU backend' : `the CPU backend (skipped: ${cpu.reason})`;

describe.skipIf(!cpu.available)(`echo on ${title}`, () => {
  it('scores a text in the bits in which it was generated, alone and beside others', { timeout: 120_000 }, async () => {
    await using engine = await createEngine({
      model: loadModelFolder(talesFolder, { name: talesName }),
      backend: createCpuBackend(),
      kv: { blockCount: 600 },
      policy: 'dvr',
    });
    const params = { logprobs: 3, deterministic: true, seed: 3, temperature: 0.8 } as const;
    const tokensOf = async (prompt: string): Promise<{ prompt: number; all: number[]; logprobs: unknown[] }> => {
      const ids: number[] = [];
      const logprobs: unknown[] = [];
      let promptCount = 0;
      for await (const event of engine.generate({ prompt, ...params, maxTokens: 40 })) {
        if (event.type === 'accepted') promptCount = event.promptTokens;
        if (event.type !== 'commit') continue;
        ids.push(...event.tokens);
        logprobs.push(...event.logprobs!.map(({ token, logprob, top }) => ({ token, logprob, top })));
      }
      return { prompt: promptCount, all: ids, logprobs };
    };
    const written = await tokensOf('Once upon a time');
    const scored = async () => {
      const heard: unknown[] = [];
      const request = { prompt: 'Once upon a time', maxTokens: 1, promptLogprobs: 0 };
      for await (const event of engine.generate(request)) if (event.type === 'commit') heard.push(event);
      return heard;
    };
    const promptTokens = [...(await promptIds(engine, 'Once upon a time')), ...written.all];
    expect(promptTokens.length).toBe(written.prompt + written.all.length);
    const score = async () => {
      for await (const event of engine.generate({ promptTokens, maxTokens: 1, deterministic: true, promptLogprobs: 3 }))
        if (event.type === 'commit') return event.promptLogprobs!.slice(written.prompt - 1);
      throw new Error('there was no commit');
    };
    const [alone] = [await score()];
    const [beside] = await Promise.all([score(), scored(), scored(), tokensOf('The king'), tokensOf('A bear')]);
    const plain = (logprobs: NonNullable<typeof alone>) =>
      logprobs.map(({ token, logprob, top }) => ({ token, logprob, top }));
    expect(plain(alone!)).toEqual(written.logprobs);
    expect(beside).toEqual(alone);
  });
});

/** The ids of a prompt, as the log-probabilities name all but the first, which the tokenizer puts in front. */
async function promptIds(engine: Awaited<ReturnType<typeof createEngine>>, prompt: string): Promise<number[]> {
  const model = await loadModelFolder(talesFolder, { name: talesName });
  try {
    expect(engine.info.vocabSize).toBe(model.tokenizer!.vocabSize);
    return [...model.tokenizer!.encode(prompt, { addSpecialTokens: true })];
  } finally {
    await model.close();
  }
}
