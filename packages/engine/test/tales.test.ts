import { readFileSync } from 'node:fs';
import { type BackendFactory, StetError } from '@stet/backend';
import { cpuFeatures, createCpuBackend, liveBytes } from '@stet/backend-cpu';
import { loadModelFolder } from '@stet/model/node';
import { createReferenceBackend } from '@stet/reference';
import { talesFolder, talesName } from '@stet/tales';
import { describe, expect, it } from 'vitest';
import {
  type CreateEngineOptions,
  createEngine,
  dvr,
  type GenerateRequest,
  promptLookup,
  type StetEngine,
} from '../src/index.js';
import { logprobBits, type ReadAnswer, readAll } from './helpers.js';

const PROMPT = 'Once upon a time, there was a little girl named Lily';
const REQUEST = { prompt: PROMPT, deterministic: true, seed: 1, logprobs: 3, maxTokens: 24 } as const;
const SAMPLED = { ...REQUEST, temperature: 0.8, topP: 0.95 } as const;

interface Golden {
  readonly prompts: readonly [
    {
      readonly prompt: string;
      readonly prompt_ids: readonly number[];
      readonly greedy_ids: readonly number[];
      readonly top2_gap: readonly number[];
    },
  ];
}

const cpu = cpuFeatures();
const cpuTitle = cpu.available ? 'the CPU backend' : `the CPU backend (skipped: ${cpu.reason})`;

function talesEngine(backend: BackendFactory, options: Partial<CreateEngineOptions> = {}): Promise<StetEngine> {
  const model = loadModelFolder(talesFolder, { name: talesName });
  return createEngine({ model, backend, kv: { blockCount: 600 }, ...options });
}

/** Everything that must repeat, with the bits of every number. */
function bitsOf(answer: ReadAnswer): string {
  return JSON.stringify([answer.tokens, answer.text, answer.hash, answer.done.receipt, logprobBits(answer)]);
}

function crowdOf(count: number, salt: number): GenerateRequest[] {
  return Array.from({ length: count }, (_, i) => ({
    prompt: ['The king', 'One day Tim', 'A bear and a fox went', 'Uncle Wiggily'][(i + salt) % 4]!,
    maxTokens: 4 + ((i * 17 + salt) % 30),
    temperature: ((i + salt) % 3) / 2,
    deterministic: (i + salt) % 5 === 0,
  }));
}

describe('the embedded model on the reference backend', () => {
  it('streams the recorded greedy story, and a stop string ends it', { timeout: 120_000 }, async () => {
    await using engine = await talesEngine(createReferenceBackend);
    expect(engine.info).toMatchObject({ model: 'tales', backend: 'reference', deterministic: 'portable' });
    const { prompts } = JSON.parse(readFileSync(new URL('golden.json', talesFolder), 'utf8')) as Golden;
    const [{ prompt, prompt_ids: promptIds, greedy_ids: greedyIds, top2_gap: gaps }] = prompts;
    // Beyond a near tie another float arithmetic may take another path.
    const certain = gaps.findIndex((gap) => gap <= 0.05);
    const maxTokens = Math.min(24, certain < 0 ? greedyIds.length : certain);
    expect(maxTokens).toBeGreaterThan(8);
    const answer = await readAll(engine.generate({ prompt, deterministic: true, maxTokens, ignoreEos: true }));
    expect(answer.accepted.promptTokens).toBe(promptIds.length);
    expect(answer.tokens).toEqual(greedyIds.slice(0, maxTokens));
    expect(answer.commits.length).toBeGreaterThan(1);
    const stop = answer.text.slice(9, 16);
    const stopped = await readAll(engine.generate({ prompt, maxTokens, stop }));
    expect(stopped.text).toBe(answer.text.slice(0, answer.text.indexOf(stop)));
    expect(stopped.done.finishReason).toBe('stop');
  });

  it('goes on with the same bits on a new backend, which reads the weights again', { timeout: 120_000 }, async () => {
    const request = { ...SAMPLED, maxTokens: 8 };
    let creations = 0;
    const losing: BackendFactory = async (load) => {
      const backend = await createReferenceBackend(load);
      const isLost = creations++ === 0;
      let forwards = 0;
      return {
        info: backend.info,
        forward: async (step) => {
          if (isLost && ++forwards > 5) throw new StetError('STET_ERR_DEVICE_LOST', 'the device fell off');
          return backend.forward(step);
        },
        close: () => backend.close(),
      };
    };
    await using calm = await talesEngine(createReferenceBackend);
    await using engine = await talesEngine(losing);
    expect(bitsOf(await readAll(engine.generate(request)))).toBe(bitsOf(await readAll(calm.generate(request))));
    expect([engine.stats().recreations, creations]).toEqual([1, 2]);
  });
});

describe.skipIf(!cpu.available)(`the embedded model on ${cpuTitle}`, () => {
  it('gives a deterministic request the same bits alone and in any crowd, and those of the reference', async () => {
    const answers = new Map<string, Set<string>>();
    const note = (name: string, answer: ReadAnswer) => {
      answers.set(name, (answers.get(name) ?? new Set()).add(bitsOf(answer)));
    };
    const requests = { greedy: REQUEST, sampled: SAMPLED };
    for (const crowd of [0, 10, 40]) {
      await using engine = await talesEngine(createCpuBackend({ threads: 2 }));
      const others = crowdOf(crowd, crowd).map((request) => readAll(engine.generate(request)));
      for (const [name, request] of Object.entries(requests)) note(name, await readAll(engine.generate(request)));
      await Promise.all(others);
      expect(engine.stats().blocks.held).toBe(0);
    }
    await using engine = await talesEngine(createReferenceBackend);
    for (const [name, request] of Object.entries(requests)) note(name, await readAll(engine.generate(request)));
    for (const [name, bits] of answers) expect([name, bits.size]).toEqual([name, 1]);
  }, 120_000);

  it('gives the same bits under every policy, with and without guesses', async () => {
    const requests: GenerateRequest[] = [
      { ...REQUEST, maxTokens: 120, ignoreEos: true },
      { ...SAMPLED, maxTokens: 120, ignoreEos: true, repetitionPenalty: 1.15 },
    ];
    const seen = new Map<string, string[]>();
    let accepted = 0;
    for (const policy of ['auto', 'dvr', dvr({ windowTokens: 5 }), 'direct'] as const) {
      for (const drafter of [undefined, promptLookup({ matchTokens: 2 })]) {
        await using engine = await talesEngine(createCpuBackend({ threads: 2 }), {
          policy,
          ...(drafter && { drafter }),
        });
        const crowd = crowdOf(5, 3).map((request) => readAll(engine.generate(request)));
        const answers = await Promise.all(requests.map((request) => readAll(engine.generate(request))));
        await Promise.all(crowd);
        accepted += engine.stats().acceptedTokens;
        seen.set(`${engine.info.policy} ${engine.info.drafter}`, answers.map(bitsOf));
      }
    }
    expect(seen.size).toBe(8);
    const [expected] = [...seen.values()];
    for (const [way, bits] of seen) expect([way, bits]).toEqual([way, expected]);
    expect(accepted).toBeGreaterThan(0);
  }, 120_000);

  it('frees all memory with the engine', async () => {
    const before = liveBytes();
    const engine = await talesEngine(createCpuBackend({ threads: 1 }));
    expect(liveBytes()).toBeGreaterThan(before);
    const stream = engine.generate(REQUEST);
    await stream.next();
    await engine.close();
    expect(liveBytes()).toBe(before);
  });
});
