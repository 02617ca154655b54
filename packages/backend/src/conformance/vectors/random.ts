import { bitsOf, fromBits, pow2 } from '../../numerics/index.js';

/** Numbers that are the same in every JavaScript engine: integer steps, exact scaling by powers of two. */
export interface Random {
  /** 0 .. 2^32 - 1 */
  word(): number;
  /** 0 .. count - 1 */
  below(count: number): number;
  /** Bell-shaped around 0, deviation about 1.15, on multiples of 2^-7 within ±4. */
  bell(): number;
  /** The same with 24 significant bits. */
  fine(): number;
  /** -1 or 1. */
  sign(): number;
}

/** Mulberry32. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const word = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  const bell = (): number => {
    const w = word();
    return ((w & 255) + ((w >>> 8) & 255) + ((w >>> 16) & 255) + (w >>> 24) - 510) / 128;
  };
  return {
    word,
    below: (count) => Math.floor((word() * count) / 4294967296),
    bell,
    fine: () => bell() + (word() >>> 8) / 2147483648,
    sign: () => (word() & 1 ? 1 : -1),
  };
}

/** (count) bell-shaped values of deviation about 2^exponent. */
export function bellValues(random: Random, count: number, exponent = 0): Float32Array {
  const scale = pow2(exponent);
  return Float32Array.from({ length: count }, () => random.fine() * scale);
}

/**
 * Values in runs of 32 that quantizers and sums find hard: zeros of both signs, ties, denormals, tiny and huge ones,
 * equal ones, one ulp above a power's limit, outliers and extremes. Magnitudes are at most 2^limit.
 */
export function hardValues(random: Random, count: number, limit: number): Float32Array {
  const values = new Float32Array(count);
  for (let start = 0; start < count; start += 32) {
    fillHardRun(random, values, start, Math.min(start + 32, count), pow2(limit));
  }
  return values;
}

function fillHardRun(random: Random, values: Float32Array, start: number, end: number, limit: number): void {
  const kind = random.below(14);
  const scale = pow2(random.below(40) - 20);
  for (let i = start; i < end; i++) {
    const value = hardValue(random, kind, i - start, scale);
    values[i] = Math.max(-limit, Math.min(limit, value));
  }
}

function hardValue(random: Random, kind: number, i: number, scale: number): number {
  const largest = Math.fround(127 * scale);
  switch (kind) {
    case 0:
      return 0;
    case 1:
      return -0;
    case 2:
      return 3.25 * scale;
    case 3:
      return (random.below(255) - 126.5) * scale;
    case 4:
      return fromBits(random.below(0x7fffff) | (random.word() & 0x80000000));
    case 5:
      return random.fine() * pow2(random.below(60) - 60);
    case 6:
      return random.fine() * pow2(random.below(100));
    case 7:
      return i === 3 ? largest : random.below(127) * scale;
    case 8:
      return i === 3 ? fromBits(bitsOf(largest) + 1) : random.below(127) * scale;
    case 9:
      return random.sign() * pow2(random.below(30) - 15);
    case 10:
      return i === 7 ? 10000 : random.fine();
    case 11:
      return random.sign() * largest;
    case 12:
      return (random.below(3) - 1) * pow2(-random.below(140));
    default:
      return random.fine();
  }
}

/** Replaces magnitudes below 2^exponent, and -0, by +0: what an operation can be given inside a model. */
export function dropTiny(values: Float32Array, exponent: number): Float32Array {
  const least = pow2(exponent);
  return values.map((x) => (Math.abs(x) < least ? 0 : x));
}
