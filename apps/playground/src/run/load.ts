import { isStetError } from '@stet/backend';
import type { AnswerRequest, AnswerSource } from '../source/answer-source.js';

const BEGINNINGS = [
  'One day, a little boy named Tim',
  'The king',
  'A bear and a fox went into the woods',
  'It was raining, and',
  'There once was a small boat that',
  'Mia had a red ball. She',
  'In the garden behind the house',
  'The old cat looked at the moon and',
] as const;
const MIN_TOKENS = 24;
const MORE_TOKENS = 72;
/** Of the context, that one of these requests may fill: a small one has no room for more. */
const CONTEXT_SHARE = 0.5;

/** An ordinary request of the kind that happens to run on a server. `random` gives numbers from 0 to below 1. */
export function randomRequest(random: () => number, contextLength: number): AnswerRequest {
  const most = Math.max(1, Math.floor(contextLength * CONTEXT_SHARE));
  return {
    prompt: BEGINNINGS[Math.floor(random() * BEGINNINGS.length)]!,
    maxTokens: Math.min(most, MIN_TOKENS + Math.floor(random() * MORE_TOKENS)),
    temperature: 0.4 + random(),
    seed: Math.floor(random() * 2 ** 32),
    ignoreEos: true,
  };
}

export interface LoadOptions {
  readonly count: number;
  readonly random: () => number;
  /** Ends all of them. */
  readonly signal: AbortSignal;
}

/**
 * Keeps `count` random requests running until `signal` is aborted: one that ends is followed by another. Resolves when all
 * have ended; rejects with what went wrong in one of them.
 */
export async function keepLoad(source: AnswerSource, { count, random, signal }: LoadOptions): Promise<void> {
  const ends = await Promise.allSettled(Array.from({ length: count }, () => keepOne(source, random, signal)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function keepOne(source: AnswerSource, random: () => number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    let tokenCount = 0;
    try {
      const request = randomRequest(random, source.info.contextLength);
      for await (const event of source.generate(request, { signal }))
        if (event.type === 'commit') tokenCount += event.tokens.length;
    } catch (error) {
      if (signal.aborted && isStetError(error) && error.code === 'STET_ERR_ABORTED') return;
      throw error;
    }
    // Whoever answers nothing would be asked without end.
    if (tokenCount === 0) return;
  }
}
