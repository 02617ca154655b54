import { assert } from '../errors.js';
import { badWeight } from './bad-weight.js';
import { bitsOf } from './bits.js';
import type { Q4Arrays } from './encode-q4.js';
import { Q4_MAX, roundQ4Parameter } from './q4-parameter.js';

/** Blocks of 32 elements d·q + m, q in 0..15, whose d and m are exact: (blocks) of each. */
export interface Q4Lines {
  readonly scales: Float32Array;
  readonly minima: Float32Array;
}

/**
 * Scales and centres of blocks of `q4` whose integers come from a file: s = bf16(d), and the centre that makes the mean
 * error of a block's 32 elements zero but for its own rounding, c = bf16(m + d·a - s·(a - 8)), a the mean of the 32
 * integers; made in f64. Where m = -8·d, as everywhere in Q4_0, c = 0. Reads `nibbles` of the target, which begin at a
 * multiple of 4 in their buffer, and fills the rest. A scale or a centre that is not finite or above 2^10 is an error.
 */
export function centreQ4(name: string, { scales, minima }: Q4Lines, target: Q4Arrays): void {
  const { nibbles } = target;
  assert(
    minima.length === scales.length && target.scales.length === scales.length && nibbles.length === scales.length * 16,
    `${name}: ${scales.length} blocks for ${target.scales.length} places`,
  );
  const words = new Uint32Array(nibbles.buffer, nibbles.byteOffset, nibbles.length / 4);
  for (let block = 0; block < scales.length; block++) {
    const exactScale = scales[block]!;
    const scale = roundQ4Parameter(exactScale);
    if (!(Math.abs(scale) <= Q4_MAX)) badWeight(`${name}, scales of blocks`, block, 'is not finite or above 2^10');
    target.scales[block] = bitsOf(scale) >>> 16;
    // What the block's values are above those of a centre of 0.
    const offset = minima[block]! + 8 * exactScale;
    let centre = 0;
    if (offset !== 0) {
      const meanStep = sumOfQuants(words, block * 4) / 32 - 8;
      centre = roundQ4Parameter(offset + (exactScale - scale) * meanStep);
      if (!(Math.abs(centre) <= Q4_MAX)) badWeight(`${name}, centres of blocks`, block, 'is not finite or above 2^10');
    }
    target.centres[block] = bitsOf(centre) >>> 16;
  }
}

/** The sum of the 32 integers of four bits in the four words from `at` on. */
function sumOfQuants(words: Uint32Array, at: number): number {
  let bytes = 0;
  for (let i = at; i < at + 4; i++) bytes += (words[i]! & 0x0f0f0f0f) + ((words[i]! >>> 4) & 0x0f0f0f0f);
  const pairs = (bytes & 0xff00ff) + ((bytes >>> 8) & 0xff00ff);
  return (pairs & 0xffff) + (pairs >>> 16);
}
