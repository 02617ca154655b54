import { assert } from '@stet/backend';
import type { GenerateRequest } from '@stet/engine';
import { derivedSeed, seededUniform, shuffled } from '../random.js';
import type { PromptedRequest, RequestLengths } from './lengths.js';

/** A request of a trace: an answer has exactly as many tokens as it was asked for. */
export type TraceRequest = GenerateRequest & {
  readonly promptTokens: readonly number[];
  readonly maxTokens: number;
  readonly deterministic: boolean;
  readonly seed: number;
};

export interface TraceOptions {
  /** 0 to 1. */
  readonly deterministicShare: number;
  /** `half`: one of two requests is sampled, at a temperature of 0.8 with top-p 0.95. */
  readonly sampling: 'greedy' | 'half';
  readonly seed: number;
}

/**
 * Makes a trace of what is asked. Share and sampling change nothing else: traces of one seed that differ in them do the
 * same work. The deterministic requests are spread over all of it; LLM-42's client put them into the first three quarters
 * where they were at most half, so that none of them could be left over at the end.
 */
export function traceOf(
  requests: readonly PromptedRequest[],
  { deterministicShare, sampling, seed }: TraceOptions,
): TraceRequest[] {
  const count = requests.length;
  const deterministic = spreadEvenly(count, Math.round(deterministicShare * count));
  // Drawn, since a pattern could coincide with that of the deterministic requests.
  const sampled = new Set(sampling === 'half' ? shuffled(count, derivedSeed(seed, 0)).slice(0, count >> 1) : []);
  return requests.map(({ promptTokens, outputTokens }, i) => ({
    promptTokens,
    maxTokens: outputTokens,
    deterministic: deterministic[i]!,
    seed: derivedSeed(seed, i + 1),
    ignoreEos: true,
    ...(sampled.has(i) ? { temperature: 0.8, topP: 0.95 } : { temperature: 0 }),
  }));
}

/** `marked` of `count` places, so that from one to the next, and from the last around to the first, it is never further than need be. */
export function spreadEvenly(count: number, marked: number): boolean[] {
  assert(Number.isSafeInteger(marked) && marked >= 0 && marked <= count, `${marked} of ${count} places`);
  const places = Array.from({ length: count }, () => false);
  for (let i = 0; i < marked; i++) places[Math.floor(((2 * i + 1) * count) / (2 * marked))] = true;
  return places;
}

/**
 * Prompts of these lengths, each from a seeded place of the texts. The texts follow each other in a ring, so that there are
 * prompts of any length; long ones repeat themselves.
 */
export function promptsFrom(
  texts: Iterable<readonly number[]>,
  lengths: readonly RequestLengths[],
  seed: number,
): PromptedRequest[] {
  const ring = [...texts].flat();
  assert(ring.length > 0, 'prompts need a text');
  const uniform = seededUniform(seed);
  return lengths.map(({ promptTokens, outputTokens }) => {
    const start = Math.floor(uniform() * ring.length);
    return {
      promptTokens: Array.from({ length: promptTokens }, (_, i) => ring[(start + i) % ring.length]!),
      outputTokens,
    };
  });
}
