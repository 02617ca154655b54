import { isStetError } from '@stet/backend';
import type { GenerateEvent, GenerateRequest } from '@stet/engine';
import type { AnswerSource } from '../engine/answer-source.js';

/** Ordinary requests that share the batch with the second run. */
const CROWD: readonly GenerateRequest[] = [
  { prompt: 'One day, a little boy named Tim', temperature: 1 },
  { prompt: 'The king', temperature: 0.7 },
  { prompt: 'A bear and a fox went into the woods', temperature: 0 },
];
export const crowdSize = CROWD.length;

export interface TwiceOptions {
  readonly signal: AbortSignal;
  /** An event of run 0, alone, or of run 1, in the crowd. */
  readonly onEvent: (run: 0 | 1, event: GenerateEvent) => void;
}

/** How the two answers compare. */
export interface Verdict {
  readonly hashes: readonly [string, string];
  /** Index of the first output token that differs; absent where all are the same. */
  readonly firstDifference?: number;
}

/**
 * Runs the same request alone and then with others in its batch. The others are as long as the request, so that they are
 * there until its end, and are cancelled with it.
 */
export async function runTwice(
  source: AnswerSource,
  request: GenerateRequest & { readonly seed: number },
  { signal, onEvent }: TwiceOptions,
): Promise<Verdict> {
  const alone = await read(source, request, signal, (event) => onEvent(0, event));
  const leaving = new AbortController();
  const others = CROWD.map((other) => {
    const { maxTokens } = request;
    const companion = { ...other, ...(maxTokens && { maxTokens }), ignoreEos: true };
    return read(source, companion, AbortSignal.any([signal, leaving.signal]), () => {});
  });
  const crowd = Promise.allSettled(others);
  let crowded: Answer;
  try {
    crowded = await read(source, request, signal, (event) => onEvent(1, event));
  } finally {
    leaving.abort();
    await crowd;
  }
  for (const end of await crowd) if (end.status === 'rejected' && !isAborted(end.reason)) throw end.reason;
  const first = firstDifference(alone.tokens, crowded.tokens);
  return { hashes: [alone.hash, crowded.hash], ...(first !== undefined && { firstDifference: first }) };
}

function isAborted(error: unknown): boolean {
  return isStetError(error) && error.code === 'STET_ERR_ABORTED';
}

interface Answer {
  readonly tokens: readonly number[];
  readonly hash: string;
}

async function read(
  source: AnswerSource,
  request: GenerateRequest,
  signal: AbortSignal,
  onEvent: (event: GenerateEvent) => void,
): Promise<Answer> {
  const tokens: number[] = [];
  let hash = '';
  for await (const event of source.generate(request, { signal })) {
    onEvent(event);
    if (event.type !== 'commit') continue;
    tokens.push(...event.tokens);
    hash = event.hash;
  }
  return { tokens, hash };
}

/** Undefined where the lists are the same. */
export function firstDifference(a: readonly number[], b: readonly number[]): number | undefined {
  for (let i = 0; i < Math.max(a.length, b.length); i++) if (a[i] !== b[i]) return i;
  return undefined;
}
