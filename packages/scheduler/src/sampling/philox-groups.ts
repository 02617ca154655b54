import { multiplyHigh } from './philox.js';

const MULTIPLIER0 = 0xd2511f53;
const MULTIPLIER1 = 0xcd9e8d57;
const WEYL0 = 0x9e3779b9 | 0;
const WEYL1 = 0xbb67ae85 | 0;

/** The Philox words of groups of four tokens, many groups in one call: the blocks of counter (outputIndex, 0, group, 0). */
export class PhiloxGroups {
  private key0 = 0;
  private key1 = 0;
  /** Of rounds 1 and 2, what is the same for every group. */
  private low0 = 0;
  private high1 = 0;
  private low1 = 0;

  aim(seed: number, outputIndex: number): void {
    this.key0 = seed | 0;
    this.key1 = Math.floor(seed / 2 ** 32) | 0;
    this.low0 = Math.imul(MULTIPLIER0, outputIndex);
    const second = multiplyHigh(MULTIPLIER0, outputIndex) ^ this.key1;
    this.high1 = multiplyHigh(MULTIPLIER1, second);
    this.low1 = Math.imul(MULTIPLIER1, second);
  }

  /**
   * `words[i]` := the word of token start + i, for tokens before `end`; both are multiples of 4. Groups whose `logits`
   * are all below `least` are left as they are.
   */
  fill(words: Int32Array, logits: Float64Array, start: number, end: number, least: number): void {
    const { key0, key1, low0, high1, low1 } = this;
    for (let token = start; token < end; token += 4) {
      if (
        logits[token]! < least &&
        logits[token + 1]! < least &&
        logits[token + 2]! < least &&
        logits[token + 3]! < least
      )
        continue;
      const group = token >>> 2;
      const first = multiplyHigh(MULTIPLIER1, group) ^ key0;
      let k0 = (key0 + WEYL0) | 0;
      let k1 = (key1 + WEYL1) | 0;
      let c0 = high1 ^ Math.imul(MULTIPLIER1, group) ^ k0;
      let c1 = low1;
      let c2 = multiplyHigh(MULTIPLIER0, first) ^ low0 ^ k1;
      let c3 = Math.imul(MULTIPLIER0, first);
      // Rounds 3 to 10, two at a time: a third quicker than one.
      for (let round = 2; round < 10; round += 2) {
        k0 = (k0 + WEYL0) | 0;
        k1 = (k1 + WEYL1) | 0;
        const d0 = multiplyHigh(MULTIPLIER1, c2) ^ c1 ^ k0;
        const d1 = Math.imul(MULTIPLIER1, c2);
        const d2 = multiplyHigh(MULTIPLIER0, c0) ^ c3 ^ k1;
        const d3 = Math.imul(MULTIPLIER0, c0);
        k0 = (k0 + WEYL0) | 0;
        k1 = (k1 + WEYL1) | 0;
        c0 = multiplyHigh(MULTIPLIER1, d2) ^ d1 ^ k0;
        c1 = Math.imul(MULTIPLIER1, d2);
        c2 = multiplyHigh(MULTIPLIER0, d0) ^ d3 ^ k1;
        c3 = Math.imul(MULTIPLIER0, d0);
      }
      words[token - start] = c0;
      words[token - start + 1] = c1;
      words[token - start + 2] = c2;
      words[token - start + 3] = c3;
    }
  }
}
