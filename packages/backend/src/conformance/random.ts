import { createRandom } from './vectors/random.js';

/** Seeded choices for cases and models: the same in every JavaScript engine, so that a failure repeats. */
export interface Random {
  /** An integer in least .. most, both included. */
  between(least: number, most: number): number;
  /** A shuffled copy. */
  shuffle<T>(items: readonly T[]): T[];
}

export function random(seed: number): Random {
  const { below } = createRandom(seed);
  return {
    between: (least, most) => least + below(most - least + 1),
    shuffle: (items) => {
      const copy = [...items];
      for (let i = copy.length - 1; i > 0; i--) {
        const j = below(i + 1);
        [copy[i], copy[j]] = [copy[j]!, copy[i]!];
      }
      return copy;
    },
  };
}
