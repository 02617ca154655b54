import { existsSync, readFileSync } from 'node:fs';
import type { Draw, TokenSampler } from '@stet/backend';
import { buildModel, samplerDraws, testSampler } from '@stet/backend/conformance';
import { describe, expect, it } from 'vitest';
import { type CpuOptions, createCpuBackend, liveBytes } from '../src/index.js';
import { isas, withoutAddon } from './support/machine.js';

/** A backend whose model has so many tokens and next to nothing else. */
async function openBackend(vocabSize: number, options: CpuOptions) {
  const { plan, weights } = buildModel({
    name: 'vocabulary',
    seed: 1,
    vocabSize,
    contextLength: 64,
    layerCount: 1,
    hiddenSize: 32,
    headCount: 1,
    kvHeadCount: 1,
    headSize: 32,
    feedForwardSize: 32,
    hasBiases: false,
    head: 'tied',
    attentionFormat: 'bf16',
    feedForwardFormat: 'bf16',
    headFormat: 'bf16',
  });
  const backend = await createCpuBackend({ selfTest: false, ...options })({
    plan,
    weights,
    blockSize: 16,
    blockCount: 5,
    maxRows: 16,
  });
  return { backend, sampler: backend.sampler as TokenSampler, close: () => backend.close() };
}

const largeDraws = () => samplerDraws(4099, 100, 1).map((draw) => ({ ...draw, topLogprobs: 3 }));

describe.skipIf(withoutAddon)('the native sampler', () => {
  for (const isa of isas) {
    testSampler((vocabSize) => openBackend(vocabSize, { isa, threads: 2 }), { name: `by ${isa} kernels` });
  }

  it.each(isas)('answers few draws at once and many from its threads, by %s kernels', async (isa) => {
    const { sampler, close } = await openBackend(4099, { isa });
    const draws = samplerDraws(4099, 100, 1).map(({ topLogprobs: _, params, ...draw }) => {
      return { ...draw, params: { ...params, topP: 1 } };
    });
    const many = sampler.sample(draws);
    expect(many).toBeInstanceOf(Promise);
    const drawn = await many;
    for (const i of [0, 50, 99]) expect(sampler.sample([draws[i]])).toEqual([drawn[i]]);
    await close();
  });

  it('answers one call at a time, and none beside a forward', async () => {
    const { backend, sampler, close } = await openBackend(4099, {});
    const running = sampler.sample(largeDraws());
    expect(() => sampler.sample(largeDraws())).toThrow(expect.objectContaining({ code: 'STET_ERR_BACKEND_BUSY' }));
    await expect(backend.forward({ fast: oneRow() })).rejects.toMatchObject({ code: 'STET_ERR_BACKEND_BUSY' });
    await running;
    const forward = backend.forward({ fast: oneRow() });
    expect(() => sampler.sample(largeDraws())).toThrow(expect.objectContaining({ code: 'STET_ERR_BACKEND_BUSY' }));
    await forward;
    await close();
  });

  it('finishes the draws in flight before it closes, draws none after, and leaves nothing', async () => {
    const { sampler, close } = await openBackend(4099, {});
    const running = sampler.sample(largeDraws());
    const closed = close();
    expect(await running).toHaveLength(100);
    await closed;
    expect(() => sampler.sample(largeDraws())).toThrow(expect.objectContaining({ code: 'STET_ERR_BACKEND_CLOSED' }));
    expect(liveBytes()).toBe(0);
  });
});

const vectorsFile = new URL('../../scheduler/test/sampling-vectors.json', import.meta.url);

describe.skipIf(withoutAddon)('the published sampling vectors', () => {
  if (!existsSync(vectorsFile)) throw new Error(`${vectorsFile.pathname} is missing`);
  const vectors = JSON.parse(readFileSync(vectorsFile, 'utf8')) as Vectors;
  const logitsNamed = (name: string) => Float32Array.from(vectors.logits[name]);

  describe.each(isas)('by %s kernels', (isa) => {
    it.each(vectors.draws)('hold for $name', async (vector) => {
      const logits = logitsNamed(vector.logits);
      const { sampler, close } = await openBackend(logits.length, { isa, threads: 1 });
      const params = { temperature: 0, topK: 0, topP: 1, minP: 0, ...vector.params };
      const adjusted = adjustedBy(vector, logits);
      const draws = vector.tokens.map((_, i) => {
        const outputIndex = vector.firstOutputIndex + i;
        return { logits, ...(adjusted && { adjusted }), params, seed: vector.seed, outputIndex } satisfies Draw;
      });
      const drawn = await sampler.sample(draws);
      await close();
      expect(drawn.map(({ token }) => token)).toEqual(vector.tokens);
    });

    it('hold for log-probabilities, bit for bit', async () => {
      for (const { logits: name, token, bits, top } of vectors.logprobs) {
        const logits = logitsNamed(name);
        const { sampler, close } = await openBackend(logits.length, { isa, threads: 1 });
        // A bias makes it the token drawn.
        const adjusted = { ids: Int32Array.of(token), values: Float64Array.of(1e9) };
        const params = { temperature: 0, topK: 0, topP: 1, minP: 0 };
        const [drawn] = await sampler.sample([
          { logits, adjusted, params, seed: 0, outputIndex: 0, topLogprobs: top.length },
        ]);
        await close();
        expect(drawn.token).toBe(token);
        expect(bitsOf(drawn.logprob?.logprob ?? Number.NaN)).toBe(bits);
        expect(drawn.logprob?.top.map((one) => ({ token: one.token, bits: bitsOf(one.logprob) }))).toEqual(top);
      }
    });
  });
});

interface Vectors {
  readonly logits: Record<string, number[]>;
  readonly draws: DrawVector[];
  readonly logprobs: { logits: string; token: number; bits: string; top: { token: number; bits: string }[] }[];
}

interface DrawVector {
  readonly name: string;
  readonly logits: string;
  readonly params: Partial<Draw['params']> & {
    frequencyPenalty?: number;
    presencePenalty?: number;
    repetitionPenalty?: number;
    logitBias?: Record<string, number>;
  };
  readonly seed: number;
  readonly prompt?: number[];
  readonly output?: number[];
  readonly firstOutputIndex: number;
  readonly tokens: number[];
}

/** Steps 1 to 3 of docs/SAMPLING.md, for every token. */
function adjustedBy({ params, prompt = [], output = [] }: DrawVector, logits: Float32Array): Draw['adjusted'] {
  const { frequencyPenalty: f = 0, presencePenalty: p = 0, repetitionPenalty: r = 1, logitBias = {} } = params;
  if (f === 0 && p === 0 && r === 1 && Object.keys(logitBias).length === 0) return undefined;
  const values = Float64Array.from(logits, (logit, id) => {
    const times = output.filter((token) => token === id).length;
    let x = logit;
    if (r !== 1 && (times > 0 || prompt.includes(id))) x *= x > 0 ? 1 / r : r;
    if (times > 0) x -= f * times + p;
    return x + (logitBias[id] ?? 0);
  });
  return { ids: Int32Array.from(logits, (_, id) => id), values };
}

function bitsOf(value: number): string {
  return new BigUint64Array(Float64Array.of(value).buffer)[0].toString(16).padStart(16, '0');
}

function oneRow() {
  return {
    tokens: Int32Array.of(1),
    positions: Int32Array.of(0),
    rowStarts: Int32Array.of(0, 1),
    blockStarts: Int32Array.of(0),
    blocks: Int32Array.of(1),
    outputRows: Int32Array.of(0),
    outputKinds: Uint8Array.of(0),
  };
}
