/** Seeded numbers in 0 .. 1, 1 excluded (mulberry32): workloads are the same in every run. */
export function seededUniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Seeded numbers of the standard normal distribution (Box and Muller). */
export function seededNormal(seed: number): () => number {
  const uniform = seededUniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Another seed for each index, so that what is drawn from them has nothing in common. */
export function derivedSeed(seed: number, index: number): number {
  return Math.floor(seededUniform((seed ^ Math.imul(index + 1, 0x9e3779b1)) >>> 0)() * 2 ** 32);
}

/** Indices 0 .. count - 1 in a seeded order (Fisher and Yates). */
export function shuffled(count: number, seed: number): number[] {
  const uniform = seededUniform(seed);
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}
