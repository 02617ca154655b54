import { fc, it as property } from '@fast-check/vitest';
import { seededRandom } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import { GREEDY, Sampler, type SamplingParams, tokenLogprob } from '../src/index.js';
import { GUMBEL_MAX, GumbelNoise } from '../src/sampling/noise.js';
import { philox } from '../src/sampling/philox.js';

const historyOf = (output: [number, number][], prompt: number[] = []) => ({
  prompt: new Set(prompt),
  output: new Map(output),
});
const hex = (words: Uint32Array) => Array.from(words, (word) => word.toString(16).padStart(8, '0')).join(' ');

describe('philox', () => {
  it.each([
    ['zeros', [0, 0, 0, 0], [0, 0], '6627e8d5 e169c58d bc57ac4c 9b00dbd8'],
    ['ones', [-1, -1, -1, -1], [-1, -1], '408f276d 41c83b0e a20bc7c6 6d5451fd'],
    [
      'digits of pi',
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      'd16cfe09 94fdcceb 5001e420 24126ea1',
    ],
  ])('gives the published answer for %s', (_name, counter, key, want) => {
    const output = new Uint32Array(4);
    philox(Uint32Array.from(counter), key[0]! >>> 0, key[1]! >>> 0, output);
    expect(hex(output)).toBe(want);
  });
});

describe('gumbel noise', () => {
  it('depends on seed, output index and token, and on no order of asking', () => {
    const noise = new GumbelNoise();
    noise.aim(2 ** 45 + 3, 9);
    const ahead = [3, 4, 5, 1000].map((token) => noise.at(token));
    noise.aim(2 ** 45 + 3, 9);
    const back = [1000, 5, 4, 3].map((token) => noise.at(token)).reverse();
    expect(back).toEqual(ahead);
    noise.aim(3, 9);
    expect(noise.at(3)).not.toBe(ahead[0]);
    noise.aim(2 ** 45 + 3, 10);
    expect(noise.at(3)).not.toBe(ahead[0]);
  });

  it('never passes the bounds that pruning relies on', () => {
    const u = (2 ** 32 - 1 + 0.5) * 2 ** -32;
    expect(-Math.log(-Math.log(u))).toBeLessThan(GUMBEL_MAX);
    const noise = new GumbelNoise();
    for (let index = 0; index < 200; index++) {
      noise.aim(77, index);
      for (let token = 0; token < 100; token++) expect(noise.at(token)).toBeLessThan(noise.bound(token));
    }
  });
});

/** The definition, spelled out: filter by sorting everything, then draw without pruning. */
function plainSample(logits: Float32Array, params: SamplingParams, seed: number, outputIndex: number): number {
  let rows = Array.from(logits, (logit, id) => ({
    id,
    value: (logit + (params.logitBias.get(id) ?? 0)) / params.temperature,
  }));
  rows.sort((a, b) => b.value - a.value || a.id - b.id);
  const largest = rows[0]!.value;
  rows = rows.filter((row) => row.value >= largest - 64);
  if (params.topK > 0) rows = rows.slice(0, params.topK);
  const weights = rows.map((row) => Math.exp(row.value - largest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const sums = weights.map((_, i) => weights.slice(0, i + 1).reduce((sum, weight) => sum + weight, 0));
  const reached = sums.findIndex((sum) => sum >= params.topP * total);
  if (params.topP < 1 && reached >= 0) rows = rows.slice(0, reached + 1);
  if (params.minP > 0) rows = rows.filter((row) => row.value >= largest + Math.log(params.minP));
  const noise = new GumbelNoise();
  noise.aim(seed, outputIndex);
  const scored = rows.map((row) => ({ ...row, score: row.value + noise.at(row.id) }));
  return scored.sort((a, b) => b.score - a.score || a.id - b.id)[0]!.id;
}

const logitsFor = (seed: number, size: number, spread: number) => {
  const random = seededRandom(seed);
  return Float32Array.from({ length: size }, () => ((random.below(4001) - 2000) / 2000) * spread);
};

describe('sampler', () => {
  property.prop(
    {
      seed: fc.nat(Number.MAX_SAFE_INTEGER),
      outputIndex: fc.nat(10000),
      size: fc.constantFrom(2, 64, 500),
      spread: fc.constantFrom(0, 1, 10, 60),
      temperature: fc.constantFrom(0.01, 0.5, 1, 3),
      topK: fc.constantFrom(0, 1, 5, 100),
      topP: fc.constantFrom(0, 0.3, 0.9, 1),
      minP: fc.constantFrom(0, 0.05, 1),
    },
    { numRuns: 400 },
  )('draws what its definition draws', ({ seed, outputIndex, size, spread, ...rest }) => {
    const params: SamplingParams = { ...GREEDY, ...rest, logitBias: new Map([[1, 0.5]]) };
    const logits = logitsFor(seed, size, spread);
    expect(new Sampler(size).sample(logits, params, seed, outputIndex, undefined)).toBe(
      plainSample(logits, params, seed, outputIndex),
    );
  });

  it('keeps every token when rounding leaves a share of nearly 1 out of reach', () => {
    const params = { ...GREEDY, temperature: 1, topP: 1 - 2 ** -53 };
    for (let seed = 0; seed < 200; seed++) {
      const logits = logitsFor(seed, 300, 3);
      const token = new Sampler(300).sample(logits, params, seed, 0, undefined);
      expect(token).toBe(new Sampler(300).sample(logits, { ...params, topP: 1 }, seed, 0, undefined));
    }
  });

  it('multiplies or divides what stands in prompt or output by the repetition penalty', () => {
    const params = { ...GREEDY, repetitionPenalty: 2 };
    const sample = (logits: number[], prompt: number[], output: [number, number][]) =>
      new Sampler(logits.length).sample(Float32Array.from(logits), params, 0, 0, historyOf(output, prompt));
    expect(sample([5, 4, 0], [], [])).toBe(0);
    expect(sample([5, 4, 0], [0], [])).toBe(1);
    expect(sample([5, 4, 0], [], [[0, 3]])).toBe(1);
    expect(sample([5, 4, 0], [], [[0, 0]])).toBe(0);
    expect(sample([-1, -1.5], [0], [])).toBe(1);
  });

  it('keeps one token for a top-k of 1, also where division by the temperature makes the best two equal', () => {
    const bias = [1.9, 1.9 + 2 ** -52] as const;
    expect(bias[1]).toBeGreaterThan(bias[0]);
    expect(bias[1] / 1.7).toBe(bias[0] / 1.7);
    const params = { ...GREEDY, temperature: 1.7, topK: 1, logitBias: new Map(bias.entries()) };
    const logits = Float32Array.of(0, 0, 0);
    for (let index = 0; index < 50; index++) expect(new Sampler(3).sample(logits, params, 5, index, undefined)).toBe(0);
  });

  it('draws tokens as often as their probability says', () => {
    const probabilities = [0.5, 0.25, 0.15, 0.07, 0.03];
    const logits = Float32Array.from(probabilities, Math.log);
    const sampler = new Sampler(5);
    const counts = [0, 0, 0, 0, 0];
    const draws = 20_000;
    for (let i = 0; i < draws; i++)
      counts[sampler.sample(logits, { ...GREEDY, temperature: 1 }, 12345, i, undefined)]!++;
    const chiSquare = counts.reduce(
      (sum, count, i) => sum + (count - draws * probabilities[i]!) ** 2 / (draws * probabilities[i]!),
      0,
    );
    expect(chiSquare).toBeLessThan(18.5); // p = 0.001 with 4 degrees of freedom
  });

  it('takes the lowest id among equal logits when greedy', () => {
    expect(new Sampler(4).sample(Float32Array.of(1, 3, 3, 2), GREEDY, 0, 0, undefined)).toBe(1);
    expect(new Sampler(4).sample(Float32Array.of(-0, 0, 0, 0), GREEDY, 0, 0, undefined)).toBe(0);
  });

  it('subtracts penalties for what stands in the output', () => {
    const params = { ...GREEDY, frequencyPenalty: 1, presencePenalty: 0.5 };
    const logits = Float32Array.of(5, 4, 0);
    expect(new Sampler(3).sample(logits, params, 0, 0, historyOf([]))).toBe(0);
    expect(new Sampler(3).sample(logits, params, 0, 0, historyOf([[0, 1]]))).toBe(1);
    expect(new Sampler(3).sample(logits, params, 0, 0, historyOf([[0, 0]]))).toBe(0);
  });

  it('keeps its published answers', () => {
    const sampler = new Sampler(64);
    const logits = logitsFor(1, 64, 6);
    const draw = (params: Partial<SamplingParams>) =>
      Array.from({ length: 12 }, (_, i) => sampler.sample(logits, { ...GREEDY, ...params }, 42, i, undefined));
    expect({
      plain: draw({ temperature: 1 }),
      topP: draw({ temperature: 1, topP: 0.7 }),
      hot: draw({ temperature: 2, topK: 8 }),
    }).toMatchSnapshot();
  });
});

describe('log-probabilities', () => {
  it('are those of the softmax, with the likeliest first', () => {
    const logits = logitsFor(3, 100, 8);
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
    const { token, logprob, top } = tokenLogprob(logits, 17, 5);
    expect(token).toBe(17);
    expect(logprob).toBeCloseTo(Math.log(Math.exp(logits[17]!) / total), 12);
    const sorted = Array.from(logits, (logit, id) => ({ logit, id })).sort((a, b) => b.logit - a.logit || a.id - b.id);
    expect(top.map((entry) => entry.token)).toEqual(sorted.slice(0, 5).map((entry) => entry.id));
  });

  it('list the lower id first among equals', () => {
    expect(tokenLogprob(Float32Array.of(1, 2, 2, 2), 0, 2).top.map((entry) => entry.token)).toEqual([1, 2]);
  });
});
