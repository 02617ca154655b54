import { mix32 } from '../hash.js';

/**
 * The toy language model behind the FakeBackend: integer hashing in place of a transformer. What matters is kept: the
 * K/V word of a position depends on its token, its position and every K/V word before it, and a row's logits depend on
 * all words of positions 0..p as they are read back, so one wrong, stale or missing word changes every later answer.
 */
export type Schedule = 'fast' | 'canonical';

/** Forces the arg-max after a context (its last token included) by returning a token id; undefined leaves the model's own. */
export type FakeScript = (context: readonly number[], schedule: Schedule) => number | undefined;

/** The lowest bit of a K/V word says that the fast schedule wrote it. The fast schedule does not see that bit; the canonical one does. */
export const CANDIDATE_BIT = 1;

/** The state before the first position. */
export function initialContext(seed: number): number {
  return mix32(0x57e70000, seed);
}

/** The K/V word of a token at a position after a context, without the candidate bit. */
export function kvWord(context: number, token: number, position: number): number {
  return mix32(mix32(context, token), position) & ~CANDIDATE_BIT;
}

/** The context after one more word, as the schedule sees it. */
export function extendContext(context: number, word: number, schedule: Schedule): number {
  return mix32(context, schedule === 'fast' ? word & ~CANDIDATE_BIT : word);
}

/**
 * Logits of the next token, -4 .. 29 in steps of 1/64 and about exponentially spread: a few likely tokens, the rest
 * far below, near ties in a few per cent of contexts and exact ties in about one.
 */
export function fillLogits(context: number, logits: Float32Array): void {
  for (let token = 0; token < logits.length; token++) {
    const u = mix32(context ^ 0x10617a51, token);
    const zeros = Math.clz32(u);
    const fraction = zeros >= 31 ? 0 : ((u << (zeros + 1)) >>> 26) & 63;
    logits[token] = zeros - 4 + (63 - fraction) / 64;
  }
}

/** Lifts one logit above all others. */
export function forceToken(logits: Float32Array, token: number): void {
  logits[token] = logits[argmaxOf(logits)]! + 4;
}

/** Lifts the runner-up just above the largest logit: the near tie that a fast kernel may decide the other way. */
export function flipArgmax(logits: Float32Array): void {
  const top = argmaxOf(logits);
  logits[runnerUpOf(logits, top)] = logits[top]! + 1 / 64;
}

/** The lowest index of the largest value. */
export function argmaxOf(values: Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}

/** The lowest index of the largest value but for the one at `best`; there are at least two. */
export function runnerUpOf(values: Float32Array, best: number): number {
  let second = best === 0 ? 1 : 0;
  for (let i = second + 1; i < values.length; i++) if (i !== best && values[i]! > values[second]!) second = i;
  return second;
}
