/** Seeded random numbers (mulberry32), so that a failure repeats. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 <= x < 1 */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let z = this.#state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer in least .. most, both included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.unit() * (most - least + 1));
  }

  pick<T>(items: readonly T[]): T {
    return items[this.between(0, items.length - 1)]!;
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  /** Roughly normal values, now and then an outlier or a zero. */
  floats(length: number, scale: number): Float32Array {
    return Float32Array.from({ length }, () => {
      const normal = (this.unit() + this.unit() + this.unit() + this.unit() - 2) * 1.7;
      if (this.chance(0.02)) return 0;
      return normal * scale * (this.chance(0.01) ? 40 : 1);
    });
  }

  /** Values of any magnitude from 2^least to 2^most, many of them exact powers, next to zeros of both signs. */
  wildFloats(length: number, least: number, most: number): Float32Array {
    return Float32Array.from({ length }, () => {
      if (this.chance(0.05)) return this.pick([0, -0]);
      const power = 2 ** this.between(least, most);
      const magnitude = this.chance(0.3) ? power : Math.min(power * (1 + this.unit()), 2 ** most);
      return magnitude * this.pick([1, -1]);
    });
  }
}
