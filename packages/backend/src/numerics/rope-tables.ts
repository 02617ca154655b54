import type { RopeSpec } from '../plan.js';
import { r12 } from './bits.js';
import { sinCos } from './float64.js';

export interface RopeTables {
  /** (positionCount × headSize / 2), f32 values of 12 significant bits on multiples of 2^-40. */
  readonly cosine: Float32Array;
  readonly sine: Float32Array;
}

/**
 * Cosine and sine of every pair at `positionCount` positions from `firstPosition` on, made once in f64 and rounded so
 * that every rope product is exact. Tables made in parts have the same bits.
 */
export function ropeTables(rope: RopeSpec, positionCount: number, firstPosition = 0): RopeTables {
  const pairCount = rope.inverseFrequencies.length;
  const cosine = new Float32Array(positionCount * pairCount);
  const sine = new Float32Array(positionCount * pairCount);
  for (let pair = 0; pair < pairCount; pair++) {
    const frequency = rope.inverseFrequencies[pair]!;
    for (let i = 0; i < positionCount; i++) {
      const [s, c] = sinCos((firstPosition + i) * frequency);
      cosine[i * pairCount + pair] = toGrid(r12(Math.fround(c * rope.attentionFactor)));
      sine[i * pairCount + pair] = toGrid(r12(Math.fround(s * rope.attentionFactor)));
    }
  }
  return { cosine, sine };
}

/** A multiple of 2^-40, so that no product of the rope can underflow; never -0. */
function toGrid(x: number): number {
  return Math.round(x * 2 ** 40) / 2 ** 40 + 0;
}
