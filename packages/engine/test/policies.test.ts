import { describe, expect, it } from 'vitest';
import { dvr, type GenerateRequest, promptLookup, type VerifyPolicy } from '../src/index.js';
import { type FakeEngineOptions, fakeEngine, logprobBits, type ReadAnswer, readAll, spell, utf8 } from './helpers.js';

type EngineOptions = NonNullable<FakeEngineOptions['engine']>;

/** Ways to come by tokens; none may change a bit. */
const ways: Record<string, EngineOptions> = {
  auto: { policy: 'auto' },
  dvr: { policy: 'dvr' },
  'dvr(3)': { policy: dvr({ windowTokens: 3 }) },
  direct: { policy: 'direct' },
  'auto, drafting': { policy: 'auto', drafter: promptLookup() },
  'dvr, drafting': { policy: 'dvr', drafter: promptLookup({ matchTokens: 1, draftTokens: 5 }) },
  'direct, drafting': { policy: 'direct', drafter: promptLookup({ matchTokens: 2 }) },
};

/** A request that repeats itself, so that guesses come and some are right. */
const PROMPT = 'one two three one two three one two three ';
const requests: GenerateRequest[] = [
  { prompt: PROMPT, deterministic: true, seed: 1, maxTokens: 60, logprobs: 2, ignoreEos: true },
  {
    prompt: PROMPT,
    deterministic: true,
    seed: 2,
    maxTokens: 60,
    logprobs: 2,
    temperature: 0.7,
    repetitionPenalty: 1.3,
  },
  { prompt: PROMPT, deterministic: true, seed: 3, maxTokens: 60, temperature: 1, topK: 20, stop: ['e', 'xyz'] },
  { prompt: PROMPT, deterministic: true, seed: 4, maxTokens: 60, logprobs: 0, provisional: true, frequencyPenalty: 1 },
  { prompt: PROMPT, seed: 5, maxTokens: 60, ignoreEos: true },
];

function bitsOf(answer: ReadAnswer): string {
  return JSON.stringify([answer.tokens, answer.text, answer.hash, logprobBits(answer), answer.done.receipt]);
}

describe('policies and drafters', () => {
  it.each([0, 0.2, 1])('change no bit of a deterministic answer, at a mismatch rate of %d', async (mismatchRate) => {
    const seen = new Map<string, string[]>();
    for (const [way, engine] of Object.entries(ways)) {
      await using fake = await fakeEngine({ mismatchRate, engine: { kv: { blockCount: 40 }, ...engine } });
      const answers = await Promise.all(requests.map((request) => readAll(fake.engine.generate(request))));
      seen.set(
        way,
        answers.filter((answer) => answer.done.receipt).map((answer) => bitsOf(answer)),
      );
      expect(fake.engine.stats().blocks.held).toBe(0);
    }
    const [expected] = [...seen.values()];
    expect(expected!.length).toBe(4);
    for (const [way, bits] of seen) expect([way, bits]).toEqual([way, expected]);
  });

  it('differ in what they do: windows under dvr alone, whose size counts', async () => {
    const windowsOf = async (policy: VerifyPolicy | 'dvr' | 'direct') => {
      await using fake = await fakeEngine({ engine: { policy } });
      const { done } = await readAll(fake.engine.generate({ ...requests[0]!, provisional: false }));
      return done.stats.windows;
    };
    expect(await windowsOf('direct')).toBe(0);
    // The first token comes from the prompt; each window commits its candidates and one more.
    expect(await windowsOf(dvr({ windowTokens: 3, maxHoldMs: 1e9 }))).toBe(Math.ceil(59 / 4));
    expect(await windowsOf(dvr({ windowTokens: 16, maxHoldMs: 1e9 }))).toBe(Math.ceil(59 / 17));
  });

  it('count guessed tokens and those that were right, per request and in all', async () => {
    const output = utf8('abcabcabcabcabcabcabcabcabcabc');
    const script = spell(output, 1);
    await using fake = await fakeEngine({ script, engine: { policy: 'direct', drafter: promptLookup() } });
    expect(fake.engine.info.drafter).toBe('prompt-lookup(3,8)');
    const request = { promptTokens: [200], maxTokens: output.length, deterministic: true } as const;
    const start = fake.backend.stepCount;
    const answer = await readAll(fake.engine.generate(request));
    expect(answer.tokens).toEqual(output);
    const { draftedTokens, acceptedTokens } = answer.done.stats;
    expect(draftedTokens).toBeGreaterThan(15);
    expect(acceptedTokens).toBe(draftedTokens);
    // The last guess ends the output, so its pass gives no token of its own.
    expect(fake.backend.stepCount - start).toBe(output.length - acceptedTokens + 1);
    expect(fake.engine.stats()).toMatchObject({ draftedTokens, acceptedTokens });
    const sampled = await readAll(fake.engine.generate({ ...request, deterministic: false }));
    expect(sampled.done.stats).toMatchObject({ draftedTokens: 0, acceptedTokens: 0 });
  });

  it('guess for ordinary requests too where the fast schedule gives the canonical bits', async () => {
    await using fake = await fakeEngine({ fastKvDeviates: false, engine: { drafter: promptLookup() } });
    const request = { promptTokens: [200], maxTokens: 30, logitBias: { 65: 100 } };
    const answer = await readAll(fake.engine.generate(request));
    expect(answer.tokens).toEqual(Array(30).fill(65));
    expect(answer.done.stats.acceptedTokens).toBeGreaterThan(10);
  });

  it('guess nothing unless asked to', async () => {
    await using fake = await fakeEngine();
    expect(fake.engine.info.drafter).toBeUndefined();
    const { done } = await readAll(fake.engine.generate(requests[0]!));
    expect(done.stats).toMatchObject({ draftedTokens: 0, acceptedTokens: 0 });
  });
});

describe('a backend of a fixed shape', () => {
  const shapes = [
    { sequenceCount: 2, windowTokens: 8 },
    { sequenceCount: 4, windowTokens: 8 },
  ];

  it('gives the same bits under every policy, which the fingerprint promises for its shape alone', async () => {
    const fingerprints = new Set<string>();
    for (const canonicalShape of shapes) {
      const seen = new Set<string>();
      for (const engine of Object.values(ways)) {
        await using fake = await fakeEngine({ mismatchRate: 0.2, canonicalShape, engine });
        expect(fake.engine.info.deterministic).toBe('fixed-shape');
        fingerprints.add(fake.engine.info.fingerprint);
        const answers = await Promise.all(requests.map((request) => readAll(fake.engine.generate(request))));
        expect(answers[0]!.done.receipt!.level).toBe('same-build');
        seen.add(JSON.stringify(answers.filter(({ done }) => done.receipt).map(bitsOf)));
      }
      expect(seen.size).toBe(1);
    }
    expect(fingerprints.size).toBe(shapes.length);
  });
});

describe('the repetition penalty', () => {
  it('keeps a greedy answer from what stands in prompt and output, and is off at 1', async () => {
    await using fake = await fakeEngine();
    const answer = (changes: GenerateRequest) =>
      readAll(fake.engine.generate({ promptTokens: [5, 6, 7], maxTokens: 100, ignoreEos: true, seed: 0, ...changes }));
    for (const deterministic of [true, false]) {
      const plain = await answer({ deterministic });
      expect((await answer({ deterministic, repetitionPenalty: 1 })).tokens).toEqual(plain.tokens);
      const penalized = await answer({ deterministic, repetitionPenalty: 10 });
      expect(new Set(penalized.tokens).size).toBeGreaterThan(new Set(plain.tokens).size);
      expect(penalized.accepted.params.repetitionPenalty).toBe(10);
    }
  });

  it('is repetition_penalty in the calls of OpenAI', async () => {
    await using fake = await fakeEngine();
    const params = { prompt: [5, 6, 7], max_tokens: 100, temperature: 0, ignore_eos: true, deterministic: true };
    const penalized = await fake.engine.completions.create({ ...params, repetition_penalty: 3 });
    const native = await readAll(
      fake.engine.generate({
        ...{ promptTokens: [5, 6, 7], maxTokens: 100, ignoreEos: true, deterministic: true },
        ...{ seed: penalized.stet.seed, repetitionPenalty: 3 },
      }),
    );
    expect(penalized.stet.receipt!.outputHash).toBe(native.hash);
  });
});
