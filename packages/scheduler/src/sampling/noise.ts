import { ln } from '@stet/backend/numerics';
import { philox } from './philox.js';

/** No Gumbel value made from 32 random bits is larger. */
export const GUMBEL_MAX = 22.9;

/** Upper bounds of the Gumbel value by the first 8 of its random bits: cheap, and enough to rule most tokens out. */
const BOUNDS = Float64Array.from({ length: 256 }, (_, byte) => gumbel(byte * 2 ** 24 + (2 ** 24 - 1)) + 1e-9);

function gumbel(word: number): number {
  return -ln(-ln((word + 0.5) * 2 ** -32));
}

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
    return BOUNDS[this.word(token) >>> 24]!;
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
