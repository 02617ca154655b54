import { assert } from '@stet/backend';
import { type Answer, type Answers, valueOfBits } from './work.js';

/** How answers differ from others to the same requests. */
export interface Comparison {
  /** Ids, hash chains and reasons to end. */
  readonly equalTokens: boolean;
  /** Of every token and of the likeliest at its place; bit for bit. */
  readonly equalLogprobs: boolean;
  /** Of tokens, or else of log-probabilities: index of the request and of its token. */
  readonly firstDifference: { readonly request: number; readonly token: number } | null;
  /** There: how far apart the two likeliest log-probabilities of the baseline are, as their logits. Null where it had ended. */
  readonly gap: number | null;
  /** There: what is in the baseline and what is here. */
  readonly values: readonly [baseline: string, here: string] | null;
}

/** `other` may have fewer answers, to the first requests. */
export function compareAnswers(baseline: Answers, other: Answers): Comparison {
  const count = other.answers.length;
  assert(count > 0 && count <= baseline.answers.length, `${count} answers against ${baseline.answers.length}`);
  const pairs = other.answers.map((theirs, request) => ({ request, ours: baseline.answers[request]!, theirs }));
  const tokens = pairs.map((pair) => ({ ...pair, token: firstDifferentToken(pair.ours, pair.theirs) }));
  const steps = pairs.map((pair) => ({ ...pair, token: firstDifferent(pair.ours.steps, pair.theirs.steps) }));
  const first = [...tokens, ...steps].find(({ token }) => token !== undefined);
  return {
    equalTokens: tokens.every(({ token }) => token === undefined),
    equalLogprobs: steps.every(({ token }) => token === undefined),
    firstDifference: first ? { request: first.request, token: first.token! } : null,
    gap: first ? gapAt(first.ours, first.token!) : null,
    values: first ? [valueAt(first.ours, first.token!), valueAt(first.theirs, first.token!)] : null,
  };
}

/** Index of the first token that differs; that after the last where all are equal and the rest is not. */
function firstDifferentToken(ours: Answer, theirs: Answer): number | undefined {
  const index = firstDifferent(ours.steps.map(tokenOf), theirs.steps.map(tokenOf));
  if (index !== undefined) return index;
  return ours.hash === theirs.hash && ours.finishReason === theirs.finishReason ? undefined : ours.steps.length;
}

function firstDifferent(ours: readonly string[], theirs: readonly string[]): number | undefined {
  for (let i = 0; i < Math.max(ours.length, theirs.length); i++) if (ours[i] !== theirs[i]) return i;
  return undefined;
}

function tokenOf(step: string): string {
  return step.slice(0, step.indexOf(' '));
}

function gapAt({ steps }: Answer, token: number): number | null {
  const [best, second] = (steps[token]?.split(' ').slice(2) ?? []).map((one) => valueOfBits(one.split(':')[1]!));
  return best === undefined || second === undefined ? null : best - second;
}

function valueAt({ steps, hash, finishReason }: Answer, token: number): string {
  return steps[token] ?? `the end (${finishReason}, ${hash})`;
}
