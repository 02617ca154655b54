import type { GenerateRequest } from '@stet/engine';
import type { Random } from './random.js';

/** A request and when it arrives, after the trial began. */
export interface Arrival {
  readonly delayMs: number;
  readonly request: GenerateRequest;
}

const OPENINGS = [
  'Once upon a time, there was a little girl named Lily.',
  'One day, a little boy named Tim went to the park.',
  'Uncle Wiggily Longears, the nice rabbit gentleman,',
  'There was once a king who had three sons.',
  'The little bear was hungry, so he',
  'In a small house by the sea lived an old fisherman and his wife. Every morning',
  'The fox',
  'It was raining, and nobody wanted to go out. "What shall we do?" asked',
];

/** The request whose answers are compared: sampled, so that it reads as a story, with all its randomness fixed. */
export function subjectRequest(kind: 'deterministic' | 'ordinary', outputTokens: number): GenerateRequest {
  return {
    prompt: 'Once upon a time, in a forest far away, a small fox found a golden key',
    deterministic: kind === 'deterministic',
    ...{ seed: 42, temperature: 0.7, topP: 0.95, logprobs: 4, maxTokens: outputTokens, ignoreEos: true },
  };
}

/** Others, with random arrivals, prompts, lengths and sampling; a quarter of them deterministic. */
export function randomCrowd(random: Random, count: number, windowMs: number, maxOutputTokens: number): Arrival[] {
  return Array.from({ length: count }, () => ({
    delayMs: random.between(0, windowMs),
    request: randomRequest(random, maxOutputTokens),
  }));
}

function randomRequest(random: Random, maxOutputTokens: number): GenerateRequest {
  const openings = Array.from({ length: random.integer(1, 4) }, () => random.pick(OPENINGS));
  return {
    prompt: openings.join(' '),
    deterministic: random.next() < 0.25,
    maxTokens: random.integer(8, maxOutputTokens),
    seed: random.integer(0, 2 ** 31),
    temperature: random.pick([0, 0.5, 0.8, 1.2]),
    topP: random.pick([1, 0.95, 0.8]),
    topK: random.pick([0, 0, 40]),
    frequencyPenalty: random.pick([0, 0, 0.5]),
    ignoreEos: true,
  };
}

/** Greedy requests of equal length that arrive together; the first ones are deterministic. Nothing else differs between mixes. */
export function throughputMix(count: number, deterministicCount: number, outputTokens: number): GenerateRequest[] {
  return Array.from({ length: count }, (_, i) => ({
    prompt: OPENINGS[i % OPENINGS.length]!,
    deterministic: i < deterministicCount,
    ...{ temperature: 0, maxTokens: outputTokens, ignoreEos: true },
  }));
}
