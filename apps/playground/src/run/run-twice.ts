import type { GenerateEvent } from '@stet/engine';
import type { AnswerRequest, AnswerSource } from '../source/answer-source.js';
import { type Answer, compareAnswers, type Verdict } from './compare.js';
import { keepLoad } from './load.js';

export interface TwiceOptions {
  /** Random requests that run beside the second run. */
  readonly loadCount: number;
  /** Numbers from 0 to below 1. */
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** An event of run 0, alone, or of run 1, under load. */
  readonly onEvent: (run: 0 | 1, event: GenerateEvent) => void;
}

/**
 * Runs the same request alone and then under load, and compares what came. Log-probabilities are asked for: with them the
 * text of each token comes too.
 */
export async function runTwice(
  source: AnswerSource,
  request: AnswerRequest & { readonly seed: number },
  { loadCount, random, signal, onEvent }: TwiceOptions,
): Promise<Verdict> {
  const asked: AnswerRequest = { ...request, logprobs: 0 };
  const alone = await read(source, asked, signal, (event) => onEvent(0, event));
  const leaving = new AbortController();
  const load = keepLoad(source, { count: loadCount, random, signal: AbortSignal.any([signal, leaving.signal]) });
  // Looked at below, after the run that matters.
  load.catch(() => {});
  let loaded: Answer;
  try {
    loaded = await read(source, asked, signal, (event) => onEvent(1, event));
  } finally {
    leaving.abort();
    await load.catch(() => {});
  }
  await load;
  return compareAnswers(alone, loaded);
}

async function read(
  source: AnswerSource,
  request: AnswerRequest,
  signal: AbortSignal,
  onEvent: (event: GenerateEvent) => void,
): Promise<Answer> {
  const tokens: Answer['tokens'][number][] = [];
  let [text, hash] = ['', ''];
  for await (const event of source.generate(request, { signal })) {
    onEvent(event);
    if (event.type !== 'commit') continue;
    for (const [index, token] of event.tokens.entries())
      tokens.push({ token, text: event.logprobs?.[index]?.text ?? '' });
    text += event.text;
    hash = event.hash;
  }
  return { tokens, text, hash };
}
