import { exp, ln } from '@stet/backend/numerics';
import type { TokenLogprob } from '../request.js';

/**
 * Log-probabilities of the raw logits (vocabSize): of `token` and of the `topCount` likeliest. In f64 with our own exp
 * and ln, summed in ascending order of id, so that equal logits give equal bits in every engine.
 */
export function tokenLogprob(logits: Float32Array, token: number, topCount: number): TokenLogprob {
  let largest = -Infinity;
  for (let id = 0; id < logits.length; id++) if (logits[id]! > largest) largest = logits[id]!;
  let sum = 0;
  for (let id = 0; id < logits.length; id++) sum += exp(logits[id]! - largest);
  const normalizer = largest + ln(sum);
  const top = likeliest(logits, topCount).map((id) => ({ token: id, logprob: logits[id]! - normalizer }));
  return { token, logprob: logits[token]! - normalizer, top };
}

/** Ids of the largest logits, best first, the lower id first among equals: insertion into a short list. */
function likeliest(logits: Float32Array, count: number): number[] {
  const best: number[] = [];
  if (count === 0) return best;
  let least = Number.NEGATIVE_INFINITY;
  for (let id = 0; id < logits.length; id++) {
    const value = logits[id]!;
    if (best.length === count && value <= least) continue;
    let at = best.length;
    while (at > 0 && value > logits[best[at - 1]!]!) at--;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
    least = logits[best[best.length - 1]!]!;
  }
  return best;
}
