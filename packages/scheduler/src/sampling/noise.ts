import { ln } from '@stet/backend/numerics';
import { philox } from './philox.js';

/** No Gumbel value made from 32 random bits is larger. */
export const GUMBEL_MAX = 22.9;

/** The Gumbel value of 32 random bits. */
export function gumbel(word: number): number {
  return -ln(-ln((word + 0.5) * 2 ** -32));
}

/**
 * Upper bounds of `gumbel(word)` by the number of leading ones of the word, `Math.clz32(~word)`: with n of them
 * 1 - u is at least 2^-(n + 1), and -ln(-ln u) at most -ln(1 - u). Cheap, and enough to rule nearly all tokens out.
 */
export const GUMBEL_BOUNDS = Float64Array.from({ length: 33 }, (_, ones) => (ones + 1) * Math.LN2 + 1e-9);

/**
 * Gumbel noise of a token: a function of the request's seed, the output index and the token id alone, so it is the
 * same in prefill, decode and verify, and no neighbour can change it.
 */
export class GumbelNoise {
  private readonly counter = new Uint32Array(4);
  private readonly words = new Uint32Array(4);
  private group = -1;
  private key0 = 0;
  private key1 = 0;

  /** Points the noise at one output token of one request. */
  aim(seed: number, outputIndex: number): void {
    this.key0 = seed >>> 0;
    this.key1 = Math.floor(seed / 2 ** 32) >>> 0;
    this.counter[0] = outputIndex;
    this.counter[1] = 0;
    this.counter[3] = 0;
    this.group = -1;
  }

  at(token: number): number {
    return gumbel(this.word(token));
  }

  /** A value that `at(token)` does not pass. */
  bound(token: number): number {
    return GUMBEL_BOUNDS[Math.clz32(~this.word(token))]!;
  }

  private word(token: number): number {
    const group = token >>> 2;
    if (group !== this.group) {
      this.group = group;
      this.counter[2] = group;
      philox(this.counter, this.key0, this.key1, this.words);
    }
    return this.words[token & 3]!;
  }
}
