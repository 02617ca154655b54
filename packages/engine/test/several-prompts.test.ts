import { describe, expect, it } from 'vitest';
import type { TextCompletionChunk, TextParams } from '../src/index.js';
import { fakeEngine } from './helpers.js';

const PROMPTS = ['once upon', 'a', 'the end of it'];
const params = { temperature: 0.9, seed: 7, max_tokens: 6, ignore_eos: true, deterministic: true } as const;
type Whole = TextParams & { readonly stream?: false };

describe('several prompts in one request', () => {
  it('get the answers that each gets alone, those of the first one first', async () => {
    await using fake = await fakeEngine({ mismatchRate: 0.3 });
    const { completions } = fake.engine;
    const all = { ...params, n: 2, logprobs: 1, echo: true };
    const together = await completions.create({ ...all, prompt: PROMPTS });
    const alone = await Promise.all(PROMPTS.map((prompt) => completions.create({ ...all, prompt })));
    expect(together.choices).toEqual(
      alone.flatMap(({ choices }, p) => choices.map((choice) => ({ ...choice, index: 2 * p + choice.index }))),
    );
    expect(together.stet.receipts).toEqual(alone.flatMap(({ stet }) => stet.receipts!));
    expect(together.stet.seeds).toEqual([7, 7, 7]);
    const promptTokens = PROMPTS.join('').length;
    expect(together.usage).toMatchObject({ prompt_tokens: promptTokens, completion_tokens: 36 });
  });

  it('are streamed with an index for each choice, and one usage for all', async () => {
    await using fake = await fakeEngine();
    const { completions } = fake.engine;
    const asked = { ...params, n: 2, prompt: PROMPTS, logprobs: 0, echo: true };
    const whole = await completions.create(asked);
    const stream = await completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
    const chunks: TextCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    for (const { index, text, logprobs } of whole.choices) {
      const own = chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
      expect(own.map((choice) => choice.text).join('')).toBe(text);
      expect(own.flatMap((choice) => choice.logprobs?.token_logprobs ?? [])).toEqual(logprobs!.token_logprobs);
      expect(own.at(-1)!.finish_reason).toBe('length');
    }
    const { prompt_tokens_details: _cached, ...usage } = whole.usage;
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage });
  });

  it('have seeds of their own where the request has none, and tell them', async () => {
    await using fake = await fakeEngine();
    const { completions } = fake.engine;
    const { seed: _seed, ...unseeded } = params;
    const { choices, stet } = await completions.create({ ...unseeded, prompt: ['same', 'same'] });
    expect(new Set(stet.seeds).size).toBe(2);
    for (const [index, seed] of stet.seeds!.entries()) {
      const again = await completions.create({ ...params, prompt: 'same', seed });
      expect(again.choices[0]!.text).toBe(choices[index]!.text);
    }
  });

  it('are refused together if one of them is, and nothing goes on', async () => {
    await using fake = await fakeEngine();
    const run = (prompt: TextParams['prompt']) => fake.engine.completions.create({ ...params, prompt } as Whole);
    await expect(run(['fine', 'x'.repeat(5000)])).rejects.toMatchObject({ code: 'STET_ERR_CONTEXT_LENGTH' });
    await expect(run([[97], [1e9]])).rejects.toMatchObject({ code: 'STET_ERR_BAD_REQUEST' });
    expect(fake.engine.stats()).toMatchObject({ running: 0, waiting: 0, blocks: { held: 0 } });
    expect((await run(['fine'])).choices).toHaveLength(1);
  });

  it('are bounded in number', async () => {
    await using fake = await fakeEngine({ engine: { limits: { maxPrompts: 3 } } });
    const run = (count: number) =>
      fake.engine.completions.create({ ...params, prompt: Array.from({ length: count }, () => 'a') });
    expect((await run(3)).choices).toHaveLength(3);
    await expect(run(4)).rejects.toMatchObject({
      code: 'STET_ERR_BAD_REQUEST',
      message: 'prompt has 4 prompts, at most 3 are allowed',
    });
  });
});
