import { readFileSync } from 'node:fs';
import { createCpuBackend } from '@stet/backend-cpu';
import { createEngine, type GenerateRequest, type StetEngine } from '@stet/engine';
import { auto, direct, dvr, type VerifyPolicy } from '@stet/scheduler';
import { type LoopStream, runClosedLoop } from './closed-loop.js';
import type { LoopResult } from './loop-meter.js';
import { openTales } from './model.js';
import { seededUniform } from './random.js';
import type { BenchResult } from './result.js';
import { median, percentile, rounded } from './stats.js';

const STREAMS = 20;
/** Ordinary streams whose tokens are timed, the same in every mix. */
const MEASURED = 4;
const REQUESTS = 3;
const MEASURED_TOKENS = 96;
const ROUNDS = 5;
/** Deterministic streams among the others. */
const MIXES = { '0 %': 0, '10 %': 2, '100 % of the others': STREAMS - MEASURED } as const;
type Mix = keyof typeof MIXES;
/** Draws are work of the host, and a window draws its tokens again, so they are measured apart. */
const SAMPLINGS = ['greedy', 'half sampled'] as const;
type Sampling = (typeof SAMPLINGS)[number];

interface Case {
  readonly sampling: Sampling;
  readonly mix: Mix;
  readonly policy: string;
  readonly engine: StetEngine;
  readonly results: LoopResult[];
}

const POLICIES: readonly (() => VerifyPolicy)[] = [() => dvr(), () => direct(), () => auto()];

/** What deterministic traffic costs the ordinary requests beside it: gaps between their tokens, time to the first one, tokens per second. */
export async function measureLatency(): Promise<BenchResult> {
  const { model, fingerprint } = await openTales();
  const text = readFileSync(new URL('../texts/story.txt', import.meta.url), 'utf8');
  const tokens = model.tokenizer!.encode(text, { addSpecialTokens: true });
  await model.close();
  const engines = new Map<string, StetEngine>();
  for (const make of POLICIES) {
    const policy = make();
    engines.set(policy.name, await openEngine(policy));
  }
  const cases = casesOf(engines);
  for (let round = 0; round < ROUNDS; round++) {
    for (const { sampling, mix, engine, results } of cases)
      results.push(await runClosedLoop(engine, streamsOf(sampling, mix, tokens), REQUESTS));
  }
  const { device } = cases[0]!.engine.info;
  for (const engine of engines.values()) await engine.close();
  return {
    workload:
      `closed loop of ${STREAMS} streams, ${MEASURED} of them ordinary and measured in every mix with ${REQUESTS} requests of ` +
      `${MEASURED_TOKENS} tokens in each of ${ROUNDS} interleaved rounds; prompts of 16 to 80 tokens; half sampled: every ` +
      'other request of a stream at temperature 0.8, top-p 0.95; no prefix cache',
    model: model.name,
    fingerprint,
    device,
    rows: cases.map(row),
  };
}

function openEngine(policy: VerifyPolicy): Promise<StetEngine> {
  return createEngine({
    model: openTales().then(({ model }) => model),
    backend: createCpuBackend(),
    policy,
    // Prompts come again in every round; nothing of them may be left.
    prefixCache: 'off',
  });
}

function casesOf(engines: ReadonlyMap<string, StetEngine>): Case[] {
  return SAMPLINGS.flatMap((sampling) =>
    (Object.keys(MIXES) as Mix[]).flatMap((mix) =>
      Array.from(engines, ([policy, engine]) => ({ sampling, mix, policy, engine, results: [] })),
    ),
  );
}

function streamsOf(sampling: Sampling, mix: Mix, tokens: readonly number[]): LoopStream[] {
  return Array.from({ length: STREAMS }, (_, stream) => ({
    role: stream < MEASURED ? 'measured' : 'load',
    request: (index) => ({
      ...requestOf(stream, index, tokens),
      deterministic: stream >= STREAMS - MIXES[mix],
      ...(sampling === 'half sampled' && index % 2 === 1 && { temperature: 0.8, topP: 0.95 }),
    }),
  }));
}

/** The same in every mix: prompt, length and seed. */
function requestOf(stream: number, index: number, tokens: readonly number[]): GenerateRequest {
  const seed = stream * 1000 + index;
  const uniform = seededUniform(seed);
  const length = 16 + Math.floor(uniform() * 65);
  const start = Math.floor(uniform() * (tokens.length - length));
  const maxTokens = stream < MEASURED ? MEASURED_TOKENS : 48 + Math.floor(uniform() * 97);
  return { promptTokens: tokens.slice(start, start + length), maxTokens, seed, ignoreEos: true };
}

/** Gaps and first tokens of all rounds together; the rate is the rounds' median. */
function row({ sampling, mix, policy, results }: Case) {
  const gaps = results.flatMap((result) => result.gaps);
  const firstTokens = results.flatMap((result) => result.firstTokens);
  const rates = results.map((result) => result.tokensPerSecond);
  return {
    sampling,
    deterministic: mix,
    policy,
    'gap p50 ms': rounded(percentile(gaps, 0.5), 2),
    'gap p99 ms': rounded(percentile(gaps, 0.99), 2),
    'gap max ms': rounded(Math.max(...gaps), 1),
    'first token p50 ms': rounded(percentile(firstTokens, 0.5), 1),
    'first token p99 ms': rounded(percentile(firstTokens, 0.99), 1),
    'tokens/s, all streams': Math.round(median(rates)),
    gaps: gaps.length,
  };
}
