import { readFileSync } from 'node:fs';
import { exp, ln } from '@stet/backend/numerics';
import { describe, expect, it } from 'vitest';
import { GREEDY, SAMPLER_VERSION, Sampler, type SamplingParams, tokenLogprob } from '../src/index.js';
import { GumbelNoise } from '../src/sampling/noise.js';
import { philox } from '../src/sampling/philox.js';

/** f64 as 16 hex digits, words as 8. Made by another implementation of docs/SAMPLING.md, in another language. */
interface Vectors {
  readonly sampler: string;
  readonly philox: { counter: string[]; key: string[]; words: string[] }[];
  readonly exp: { x: number; bits: string }[];
  readonly ln: { x: number; bits: string }[];
  readonly noise: { seed: number; outputIndex: number; token: number; word: string; bits: string }[];
  readonly logits: Record<string, number[]>;
  readonly draws: {
    name: string;
    logits: string;
    params: Partial<Omit<SamplingParams, 'logitBias'>> & { logitBias?: Record<string, number> };
    seed: number;
    prompt?: number[];
    output?: number[];
    firstOutputIndex: number;
    tokens: number[];
  }[];
  readonly logprobs: { logits: string; token: number; bits: string; top: { token: number; bits: string }[] }[];
}

const vectors = JSON.parse(readFileSync(new URL('sampling-vectors.json', import.meta.url), 'utf8')) as Vectors;

const bitsOf = (value: number) => new BigUint64Array(Float64Array.of(value).buffer)[0]!.toString(16).padStart(16, '0');
const hex = (words: Uint32Array) => Array.from(words, (word) => word.toString(16).padStart(8, '0'));
const wordsOf = (texts: readonly string[]) => Uint32Array.from(texts, (text) => Number.parseInt(text, 16));

function logitsNamed(name: string): Float32Array {
  const logits = Float32Array.from(vectors.logits[name]!);
  expect([...logits]).toEqual(vectors.logits[name]);
  return logits;
}

function countsOf(tokens: readonly number[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return counts;
}

describe('the published sampling vectors', () => {
  it('are those of this version of the sampler', () => {
    expect(vectors.sampler).toBe(SAMPLER_VERSION);
    expect(vectors.draws.length).toBeGreaterThan(30);
  });

  it('hold for Philox', () => {
    for (const { counter, key, words } of vectors.philox) {
      const [key0, key1] = wordsOf(key);
      const output = new Uint32Array(4);
      philox(wordsOf(counter), key0!, key1!, output);
      expect(hex(output)).toEqual(words);
    }
  });

  it('hold for exp and ln, bit for bit', () => {
    for (const { x, bits } of vectors.exp) expect([x, bitsOf(exp(x))]).toEqual([x, bits]);
    for (const { x, bits } of vectors.ln) expect([x, bitsOf(ln(x))]).toEqual([x, bits]);
  });

  it('hold for the noise of a token, bit for bit', () => {
    const noise = new GumbelNoise();
    const words = new Uint32Array(4);
    for (const { seed, outputIndex, token, word, bits } of vectors.noise) {
      philox(Uint32Array.of(outputIndex, 0, token >>> 2, 0), seed >>> 0, Math.floor(seed / 2 ** 32), words);
      expect(hex(words)[token & 3]).toBe(word);
      noise.aim(seed, outputIndex);
      expect([seed, outputIndex, token, bitsOf(noise.at(token))]).toEqual([seed, outputIndex, token, bits]);
    }
  });

  it.each(vectors.draws)('hold for $name', ({ logits, params, seed, prompt, output, firstOutputIndex, tokens }) => {
    const values = logitsNamed(logits);
    const { logitBias = {}, ...rest } = params;
    const full: SamplingParams = {
      ...GREEDY,
      ...rest,
      logitBias: new Map(Object.entries(logitBias).map(([token, bias]) => [Number(token), bias])),
    };
    const history = prompt && output && { prompt: new Set(prompt), output: countsOf(output) };
    const sampler = new Sampler(values.length);
    const drawn = tokens.map((_, i) => sampler.sample(values, full, seed, firstOutputIndex + i, history));
    expect(drawn).toEqual(tokens);
  });

  it('hold for log-probabilities, bit for bit', () => {
    for (const { logits, token, bits, top } of vectors.logprobs) {
      const got = tokenLogprob(logitsNamed(logits), token, top.length);
      expect(bitsOf(got.logprob)).toBe(bits);
      expect(got.top.map((one) => ({ token: one.token, bits: bitsOf(one.logprob) }))).toEqual(top);
    }
  });
});
