/** Seeded random numbers for tests: the same sequence in every JavaScript engine (splitmix32, integers alone). */
export interface SeededRandom {
  /** The next 32 bits, 0 .. 2^32 - 1. */
  next(): number;
  /** An integer in 0 .. count - 1; count up to 2^32. */
  below(count: number): number;
  /** An integer in least .. most, both included. */
  between(least: number, most: number): number;
  /** True with the given probability. */
  chance(probability: number): boolean;
  /** One of the items. */
  pick<T>(items: readonly T[]): T;
  /** A shuffled copy. */
  shuffle<T>(items: readonly T[]): T[];
  /** A generator of its own, for a part of a test that must not disturb the rest. */
  fork(label: number): SeededRandom;
}

export function seededRandom(seed: number): SeededRandom {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
  const below = (count: number): number => Math.floor((next() / 2 ** 32) * count);
  return {
    next,
    below,
    between: (least, most) => least + below(most - least + 1),
    chance: (probability) => next() < probability * 2 ** 32,
    pick: (items) => items[below(items.length)]!,
    shuffle: (items) => {
      const copy = [...items];
      for (let i = copy.length - 1; i > 0; i--) {
        const j = below(i + 1);
        [copy[i], copy[j]] = [copy[j]!, copy[i]!];
      }
      return copy;
    },
    fork: (label) => seededRandom(next() ^ Math.imul(label, 0x85ebca6b)),
  };
}
