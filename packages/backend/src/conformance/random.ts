/** Seeded random integers (splitmix32): the same sequence in every JavaScript engine, so that a failure repeats. */
export interface Random {
  /** The next 32 bits, 0 .. 2^32 - 1. */
  next(): number;
  /** An integer in least .. most, both included. */
  between(least: number, most: number): number;
  /** A shuffled copy. */
  shuffle<T>(items: readonly T[]): T[];
}

export function random(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  };
  const between = (least: number, most: number): number => least + Math.floor((next() / 2 ** 32) * (most - least + 1));
  const shuffle = <T>(items: readonly T[]): T[] => {
    const copy = [...items];
    for (let i = copy.length - 1; i > 0; i--) {
      const j = between(0, i);
      [copy[i], copy[j]] = [copy[j]!, copy[i]!];
    }
    return copy;
  };
  return { next, between, shuffle };
}
