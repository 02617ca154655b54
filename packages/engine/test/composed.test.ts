import {
  type Backend,
  type BackendFactory,
  type BatchResult,
  composeBackends,
  type Plan,
  StetError,
} from '@stet/backend';
import { buildModel } from '@stet/backend/conformance';
import { cpuFeatures, createCpuBackend } from '@stet/backend-cpu';
import type { LoadedModel } from '@stet/model';
import { createReferenceBackend } from '@stet/reference';
import { createFakeBackend, type FakeBackend, fakeLoad } from '@stet/testing';
import { describe, expect, it } from 'vitest';
import {
  type CreateEngineOptions,
  createEngine,
  type GenerateRequest,
  promptLookup,
  type StetEngine,
} from '../src/index.js';
import { byteTokenizer, EOS, logprobBits, type ReadAnswer, readAll, toyFacts, until } from './helpers.js';

const tokenizer = byteTokenizer([]);
const CONTEXT = 160;

function modelOf({ plan, weights }: Pick<LoadedModel, 'plan' | 'weights'>): LoadedModel {
  return {
    name: 'small',
    architecture: plan.architecture,
    plan,
    ...toyFacts,
    weights,
    tokenizer,
    eosIds: [EOS],
    contextLength: CONTEXT,
    generationDefaults: {},
    digest: '0'.repeat(64),
    close: async () => {},
  };
}

const toy = fakeLoad({ vocabSize: tokenizer.vocabSize, contextLength: CONTEXT });
const small = buildModel({
  name: 'small',
  seed: 31,
  vocabSize: tokenizer.vocabSize,
  contextLength: CONTEXT,
  layerCount: 2,
  hiddenSize: 32,
  headCount: 2,
  kvHeadCount: 1,
  headSize: 16,
  feedForwardSize: 32,
  hasBiases: false,
  head: 'tied',
  attentionFormat: 'bf16',
  feedForwardFormat: 'bf16',
  headFormat: 'bf16',
});

type Given = { readonly plan: Plan; readonly weights: LoadedModel['weights'] };

function engineOf(model: Given, backend: BackendFactory, options: Partial<CreateEngineOptions> = {}) {
  return createEngine({ model: modelOf(model), backend, kv: { blockCount: 64 }, policy: 'dvr', ...options });
}

/** Two toy models that have nothing in common, so that no K/V of the one serves the other. */
const fastToy = createFakeBackend({ seed: 1 });
const canonicalToy = createFakeBackend({ seed: 2 });

/** A backend that gets the arg-max of a fifth of all fast rows wrong. Which ones depends on the largest logit alone. */
function noisy(factory: BackendFactory): BackendFactory {
  return async (load) => {
    const backend = await factory(load);
    const forward: Backend['forward'] = async (step) => {
      const result = await backend.forward(step);
      if (result.fast) for (let i = 0; i < result.fast.argmax.length; i++) perturb(result.fast, i);
      return result;
    };
    return { info: { ...backend.info, fast: 'free' }, forward, close: () => backend.close() };
  };
}

function perturb({ argmax, argmaxLogit }: BatchResult, i: number): void {
  const bits = new Uint32Array(Float32Array.of(argmaxLogit[i]!).buffer)[0]!;
  if (bits % 5 === 0) argmax[i] = (argmax[i]! + 1) % EOS;
}

/** Many requests that begin alike, of both kinds, some greedy and some sampled. */
function crowd(count: number): GenerateRequest[] {
  const beginnings = ['once upon a time there was a small fox', 'once upon a time there was', 'the fox and the crow'];
  return Array.from({ length: count }, (_, i) => ({
    prompt: `${beginnings[i % 3]!}${' and so'.repeat(i % 4)}${i % 5 === 0 ? '' : String.fromCharCode(97 + (i % 26))}`,
    deterministic: i % 2 === 0,
    seed: i,
    temperature: i % 3 === 0 ? 0.9 : 0,
    ...(i % 4 === 0 && { frequencyPenalty: 0.4 }),
    logprobs: 2,
    maxTokens: 8 + ((i * 7) % 40),
    ignoreEos: true,
  }));
}

const bitsOf = (answer: ReadAnswer): string =>
  JSON.stringify([answer.tokens, answer.text, answer.hash, logprobBits(answer)]);

async function answersOf(engine: StetEngine, requests: readonly GenerateRequest[]): Promise<ReadAnswer[]> {
  return Promise.all(requests.map((request) => readAll(engine.generate(request))));
}

/** Each request has an engine of its own time: nothing runs beside it. */
async function aloneOn(model: Given, backend: BackendFactory, requests: readonly GenerateRequest[]): Promise<string[]> {
  await using engine = await engineOf(model, backend, { prefixCache: 'off' });
  const bits: string[] = [];
  for (const request of requests) bits.push(bitsOf(await readAll(engine.generate(request))));
  return bits;
}

/** What an answer must be: that of the part which the request is for, alone. */
async function expectedOf(
  model: Given,
  parts: { readonly fast: BackendFactory; readonly canonical: BackendFactory },
  requests: readonly GenerateRequest[],
): Promise<string[]> {
  const isDeterministic = ({ deterministic = false }: GenerateRequest) => deterministic;
  const fast = await aloneOn(
    model,
    parts.fast,
    requests.filter((one) => !isDeterministic(one)),
  );
  const canonical = await aloneOn(model, parts.canonical, requests.filter(isDeterministic));
  return requests.map((request) => (isDeterministic(request) ? canonical.shift()! : fast.shift()!));
}

function sum(answers: readonly ReadAnswer[], of: (answer: ReadAnswer) => number): number {
  return answers.reduce((total, answer) => total + of(answer), 0);
}

describe('an engine on a composed backend', () => {
  const parts = { fast: fastToy, canonical: canonicalToy };
  let expectedOnce: Promise<string[]> | undefined;
  const expectedOfToys = () => {
    expectedOnce ??= expectedOf(toy, parts, crowd(24));
    return expectedOnce;
  };

  it.each([
    ['dvr', 'on'],
    ['dvr', 'off'],
    ['direct', 'on'],
    ['auto', 'on'],
  ] as const)(
    'under %s, prefix cache %s, answers like the part that a request is for, whoever else is there',
    async (policy, prefixCache) => {
      const requests = crowd(24);
      const expected = await expectedOfToys();
      await using engine = await engineOf(toy, composeBackends(parts), { policy, prefixCache });
      for (const round of ['first', 'second']) {
        const answers = await answersOf(engine, requests);
        for (const [i, answer] of answers.entries()) expect(bitsOf(answer), `${round} round, ${i}`).toBe(expected[i]);
        if (policy === 'dvr') expect(sum(answers, ({ done }) => done.stats.rollbacks)).toBeGreaterThan(30);
        const cached = sum(answers, ({ done }) => done.stats.cachedTokens);
        if (prefixCache === 'on' && round === 'second') expect(cached).toBeGreaterThan(100);
      }
      expect(engine.stats().blocks.held).toBe(0);
    },
  );

  it('does so where blocks are short and sequences lose them', async () => {
    const requests = crowd(24);
    const expected = await expectedOfToys();
    let preemptions = 0;
    for (const blockSize of [16, 4]) {
      await using engine = await engineOf(toy, composeBackends(parts), {
        kv: { blockSize, blockCount: 160 / blockSize },
      });
      const answers = await answersOf(engine, requests);
      for (const [i, answer] of answers.entries()) expect(bitsOf(answer), `request ${i}`).toBe(expected[i]);
      preemptions += sum(answers, ({ done }) => done.stats.preemptions);
    }
    expect(preemptions).toBeGreaterThan(5);
  });

  it('does so where a drafter guesses', async () => {
    const requests = crowd(24);
    const expected = await expectedOfToys();
    await using engine = await engineOf(toy, composeBackends(parts), { drafter: promptLookup() });
    const answers = await answersOf(engine, requests);
    for (const [i, answer] of answers.entries()) expect(bitsOf(answer), `request ${i}`).toBe(expected[i]);
  });

  it('does so where the canonical part has a fixed shape', async () => {
    const requests = crowd(24);
    const canonicalShape = { sequenceCount: 4, windowTokens: 16 };
    const fixed = { fast: fastToy, canonical: createFakeBackend({ seed: 2, canonicalShape }) };
    const expected = await expectedOf(toy, fixed, requests);
    await using engine = await engineOf(toy, composeBackends(fixed));
    expect(engine.info.guarantee).toBe('same-build');
    for (let round = 0; round < 2; round++) {
      const answers = await answersOf(engine, requests);
      for (const [i, answer] of answers.entries()) expect(bitsOf(answer), `request ${i}`).toBe(expected[i]);
    }
  });

  it.each(['fast', 'canonical'] as const)('goes on where the device of the %s part is lost', async (lost) => {
    const requests = crowd(24);
    const expected = await expectedOfToys();
    const made: FakeBackend[] = [];
    const watched = async (load: Parameters<BackendFactory>[0]) => {
      const backend = await (parts[lost] as typeof fastToy)(load);
      made.push(backend);
      return backend;
    };
    await using engine = await engineOf(toy, composeBackends({ ...parts, [lost]: watched }));
    const answering = answersOf(engine, requests);
    const stepsBefore = made[0]!.stepCount;
    await until(() => made[0]!.stepCount > stepsBefore + 12, 'a dozen steps were run');
    made[0]!.failNext(new StetError('STET_ERR_DEVICE_LOST', 'the device is gone'));
    const answers = await answering;
    for (const [i, answer] of answers.entries()) expect(bitsOf(answer), `request ${i}`).toBe(expected[i]);
    expect([made.length, engine.stats().recreations]).toEqual([2, 1]);
  });

  it('gives an ordinary request the prompt that a deterministic one left, fed anew', async () => {
    const deterministic = { prompt: 'x'.repeat(70), deterministic: true, maxTokens: 20, ignoreEos: true, logprobs: 1 };
    const ordinary = { ...deterministic, deterministic: false };
    const expected = await expectedOf(toy, parts, [deterministic, ordinary]);
    await using engine = await engineOf(toy, composeBackends(parts));
    const [first] = await answersOf(engine, [deterministic]);
    const [second] = await answersOf(engine, [ordinary]);
    expect([bitsOf(first!), bitsOf(second!)]).toEqual(expected);
    expect(second!.done.stats.cachedTokens).toBe(64);
  });

  it('answers several choices of a call as each alone', async () => {
    for (const deterministic of [true, false]) {
      const call = {
        ...{ prompt: 'once upon a time there was a small fox', seed: 5, temperature: 1, max_tokens: 30 },
        ...{ ignore_eos: true, logprobs: 2, n: 4, deterministic },
      };
      await using composed = await engineOf(toy, composeBackends(parts));
      await using alone = await engineOf(toy, deterministic ? canonicalToy : fastToy);
      const [got, expected] = await Promise.all([composed, alone].map((one) => one.completions.create(call)));
      expect(got!.choices).toEqual(expected!.choices);
      expect(new Set(got!.choices.map(({ text }) => text)).size).toBe(4);
    }
  });

  it('has the fingerprint and the receipts of the canonical part', async () => {
    await using composed = await engineOf(toy, composeBackends(parts));
    await using alone = await engineOf(toy, canonicalToy);
    expect(composed.info).toMatchObject({ backend: 'fake+fake', fingerprint: alone.info.fingerprint });
    const request = { prompt: 'a', deterministic: true, seed: 3, maxTokens: 9, ignoreEos: true };
    const [got, expected] = await Promise.all([composed, alone].map((one) => readAll(one.generate(request))));
    expect(got!.done.receipt).toEqual(expected!.done.receipt);
  });
});

const cpu = cpuFeatures();

describe('an engine on a composition of real backends', () => {
  const parts = { fast: createReferenceBackend, canonical: createReferenceBackend };

  it('answers deterministic requests like the canonical part where the fast one errs', async () => {
    const requests = crowd(12).map((request) => ({ ...request, deterministic: true }));
    const expected = await aloneOn(small, parts.canonical, requests);
    await using engine = await engineOf(small, composeBackends({ ...parts, fast: noisy(parts.fast) }));
    const answers = await answersOf(engine, requests);
    expect(answers.map(bitsOf)).toEqual(expected);
    expect(sum(answers, ({ done }) => done.stats.rollbacks)).toBeGreaterThan(5);
  });

  it.skipIf(!cpu.available)(
    `answers ordinary requests like the reference and deterministic ones like the CPU${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`,
    async () => {
      const requests = crowd(16);
      const expected = await expectedOf(small, parts, requests);
      const canonical = createCpuBackend({ threads: 1 });
      await using engine = await engineOf(small, composeBackends({ fast: createReferenceBackend, canonical }));
      expect(engine.info.backend).toBe('reference+cpu');
      for (let round = 0; round < 2; round++) {
        const answers = await answersOf(engine, requests);
        for (const [i, answer] of answers.entries()) expect(bitsOf(answer), `request ${i}`).toBe(expected[i]);
      }
    },
  );

  it.skipIf(!cpu.available)(
    `answers deterministic requests alike on both orders of reference and CPU${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`,
    async () => {
      const requests = crowd(12).map((request) => ({ ...request, deterministic: true }));
      const native = createCpuBackend({ threads: 1 });
      const bits = new Set<string>();
      for (const backend of [
        native,
        composeBackends({ fast: native, canonical: createReferenceBackend }),
        composeBackends({ fast: createReferenceBackend, canonical: native }),
      ]) {
        await using engine = await engineOf(small, backend);
        bits.add(JSON.stringify((await answersOf(engine, requests)).map(bitsOf)));
      }
      expect(bits.size).toBe(1);
    },
  );
});
