import type { AdjustedLogits, Draw } from '../sampling.js';
import { createRandom, type Random } from './vectors/random.js';

/** Vocabularies of the suite: shorter than a vector, around its multiples, longer than any buffer. */
export const SAMPLER_VOCABULARIES: readonly number[] = [3, 16, 63, 64, 65, 1000, 4099];

/** `count` draws from hard and easy rows, the same for the same seed. */
export function samplerDraws(vocabSize: number, count: number, seed: number): Draw[] {
  const random = createRandom(seed);
  return Array.from({ length: count }, () => randomDraw(vocabSize, random));
}

function randomDraw(vocabSize: number, random: Random): Draw {
  const pick = <T>(choices: readonly T[]): T => choices[random.below(choices.length)]!;
  const adjusted = random.below(3) === 0 ? randomAdjustment(vocabSize, random) : undefined;
  const topLogprobs = pick([undefined, undefined, 0, 1, Math.min(vocabSize, 20)]);
  return {
    logits: randomLogits(vocabSize, random),
    ...(adjusted && { adjusted }),
    params: {
      temperature: pick([0, 0.001, 0.3, 0.8, 1, 1.7, 5, 100]),
      topK: pick([0, 0, 0, 1, 2, 40, 300, Number.MAX_SAFE_INTEGER]),
      topP: pick([1, 1, 0, 0.1, 0.5, 0.95, 0.999, 1 - 2 ** -53]),
      minP: pick([0, 0, 0.05, 0.9, 1, 1e-20, Number.MIN_VALUE]),
    },
    seed: pick([0, Number.MAX_SAFE_INTEGER, random.word() * 2 ** 21 + random.below(2 ** 21)]),
    outputIndex: pick([0, 1, random.below(100_000)]),
    ...(topLogprobs !== undefined && { topLogprobs }),
  };
}

/** Flat to steep, with and without ties, far from zero, beyond what f32 tells apart after a division. */
function randomLogits(vocabSize: number, random: Random): Float32Array {
  const pick = <T>(choices: readonly T[]): T => choices[random.below(choices.length)]!;
  const spread = pick([0, 0.25, 1, 3, 3, 10, 60, 1e4, 1e17]);
  const offset = pick([0, 0, 0, -30, 100, 1e5]);
  const steps = pick([0, 0, 1, 4]);
  return Float32Array.from({ length: vocabSize }, () => {
    const value = random.fine() * spread;
    return (steps === 0 ? value : Math.round(value * steps) / steps) + offset;
  });
}

/** Of some tokens or of all, in any order: values that no f32 has, ties among them. */
function randomAdjustment(vocabSize: number, random: Random): AdjustedLogits {
  const share = [1, 2, 30][random.below(3)]!;
  const ids = Array.from({ length: vocabSize }, (_, id) => id).filter(() => random.below(share) === 0);
  for (let i = ids.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [ids[i], ids[j]] = [ids[j]!, ids[i]!];
  }
  const spread = [1, 5, 100][random.below(3)]!;
  return {
    ids: Int32Array.from(ids),
    values: Float64Array.from(ids, () => (random.below(10) === 0 ? 1.9 + 2 ** -52 : random.fine() * spread + 1e-12)),
  };
}
