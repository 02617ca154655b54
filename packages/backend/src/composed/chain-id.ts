/**
 * An id of all tokens from position 0 up to a position, 64 bits as two halves of 32. It is made token by token: equal
 * tokens give equal ids, and after equal tokens another token always gives another id. Different beginnings share an id
 * by chance alone, once in 2^64 pairs.
 */
export class ChainId {
  high = ROOT_HIGH;
  low = ROOT_LOW;

  /** The id before position 0. */
  reset(): void {
    this.high = ROOT_HIGH;
    this.low = ROOT_LOW;
  }

  set(high: number, low: number): void {
    this.high = high;
    this.low = low;
  }

  /** Three Feistel rounds: for one token a permutation of all ids, so that no step loses what came before. */
  extend(token: number): void {
    const spread = Math.imul(token, 0x9e3779b1);
    this.low ^= scramble((this.high + spread) | 0);
    this.high ^= scramble((this.low + spread) ^ 0x5851f42d);
    this.low ^= scramble(this.high ^ 0x14057b7e);
  }

  isAt(high: number, low: number): boolean {
    return this.high === high && this.low === low;
  }
}

const ROOT_HIGH = 0x243f6a88;
const ROOT_LOW = 0x13198a2e;

/** The finalizer of MurmurHash3, a permutation of 32 bits. */
function scramble(word: number): number {
  let z = word;
  z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
  z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
  return z ^ (z >>> 16);
}
