import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isStetError } from '../src/index.js';
import {
  attentionScale,
  bitsOf,
  checkBf16,
  checkVector,
  encodeBf16,
  encodeWeight,
  exp,
  exponentOf64,
  fromBits,
  ln,
  pow2,
  rmsNormConstants,
  ropeTables,
  roundHalfEven,
  SWIGLU_SCALE,
  sinCos,
} from '../src/numerics/index.js';

const relative = (value: number, truth: number): number => Math.abs(value / truth - 1);

/** The message of the `STET_ERR_BAD_WEIGHTS` that a call throws. */
function badWeights(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    if (isStetError(error) && error.code === 'STET_ERR_BAD_WEIGHTS') return error.message;
    throw error;
  }
  return 'nothing was thrown';
}

describe('functions of f64', () => {
  it('exp is within 1e-15 of e^x over its whole range', () => {
    let worst = 0;
    for (let i = 0; i < 40000; i++) {
      const x = -708 + (i * 1416) / 40000 + (i % 7) / 1000;
      worst = Math.max(worst, relative(exp(x), Math.exp(x)));
    }
    expect(worst).toBeLessThan(1e-15);
    expect([exp(0), exp(-709), exp(-1e9)]).toEqual([1, 0, 0]);
  });

  it('ln is within 1e-15 of the logarithm, near 1 and far from it', () => {
    let worst = 0;
    for (let i = 1; i < 20000; i++) {
      for (const x of [i / 10000 + 1e-9, 1 + i * 1e-12, i * 1e17, 1 / (i * 1e30)]) {
        const truth = Math.log(x);
        if (Math.abs(truth) > 1e-12) worst = Math.max(worst, relative(ln(x), truth));
      }
    }
    expect(worst).toBeLessThan(1e-15);
    expect([ln(1), ln(2) / Math.LN2]).toEqual([0, 1]);
    expect(relative(ln(2 ** 1000), Math.log(2 ** 1000))).toBeLessThan(1e-15);
    expect(relative(ln(2 ** -1022), Math.log(2 ** -1022))).toBeLessThan(1e-15);
  });

  it('sinCos is within 1e-15 up to an angle of 2^17, and within 2e-15 up to 2^20', () => {
    const worst = (largest: number): number => {
      let error = 0;
      for (let i = 0; i < 40000; i++) {
        const angle = ((i * 7919) % 40000) * (largest / 40000) + 1 / (i + 1);
        const [s, c] = sinCos(angle);
        error = Math.max(error, Math.abs(s - Math.sin(angle)), Math.abs(c - Math.cos(angle)));
      }
      return error;
    };
    expect(worst(7)).toBeLessThan(1e-15);
    expect(worst(2 ** 17)).toBeLessThan(1e-15);
    expect(worst(2 ** 20 - 1)).toBeLessThan(2e-15);
    expect(sinCos(0)).toEqual([0, 1]);
  });

  it('sinCos is odd and even, as the signs of negative angles ask', () => {
    for (const angle of [0.1, 1, 2, 3, 5, 100, 65536.5]) {
      const [s, c] = sinCos(angle);
      const [minusS, sameC] = sinCos(-angle);
      expect(Math.abs(minusS + s) + Math.abs(sameC - c)).toBeLessThan(1e-15);
    }
  });
});

describe('bits', () => {
  it('pow2 and exponentOf64 agree with ** over the normal range', () => {
    for (let k = -1022; k <= 1023; k++) {
      expect(pow2(k)).toBe(2 ** k);
      expect(exponentOf64(2 ** k * 1.75)).toBe(k);
      expect(pow2(k)).toBe(2 ** k);
    }
  });

  it('bits of an f32 go there and back', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffffffff }), (bits) => {
        const x = fromBits(bits);
        return Number.isNaN(x) || bitsOf(x) === bits;
      }),
    );
  });

  it('roundHalfEven sends ties to the even neighbour', () => {
    expect([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 126.5, 2.4999, -2.5001].map((x) => roundHalfEven(x) + 0)).toEqual([
      -2, -2, 0, 0, 2, 2, 126, 2, -3,
    ]);
  });
});

describe('constants', () => {
  it('are rounded to f32 once', () => {
    expect(SWIGLU_SCALE).toBe(94548.4609375);
    expect(attentionScale(64)).toBe(SWIGLU_SCALE / 8);
    expect(bitsOf(attentionScale(48))).toBe(bitsOf((65536 * Math.LOG2E) / Math.sqrt(48)));
    expect(rmsNormConstants(576, 1e-5)).toEqual({ scaledEpsilon: Math.fround(576e-5), rootWidth: 24 });
  });
});

describe('encodeBf16', () => {
  const one = (x: number): number => encodeBf16('w', Float32Array.of(x))[0]!;

  it('rounds to nearest even', () => {
    const cases = [
      [0x3f800000, 0x3f80],
      [0x3f807fff, 0x3f80],
      [0x3f808000, 0x3f80],
      [0x3f808001, 0x3f81],
      [0x3f817fff, 0x3f81],
      [0x3f818000, 0x3f82],
      [0xbf818000, 0xbf82],
      [0x3fffffff, 0x4000],
    ] as const;
    for (const [word, bits] of cases) expect(one(fromBits(word)).toString(16)).toBe(bits.toString(16));
  });

  it('gives a value within half a step, for every value of its domain', () => {
    const words = fc.tuple(fc.integer({ min: 0x2b800000, max: 0x44800000 }), fc.boolean());
    fc.assert(
      fc.property(words, ([word, negative]) => {
        const x = fromBits(word) * (negative ? -1 : 1);
        return Math.abs(fromBits(one(x) << 16) - x) <= Math.abs(x) * 2 ** -8;
      }),
      { numRuns: 2000 },
    );
  });

  it('makes zeros, subnormals and all below 2^-40 a +0', () => {
    for (const x of [0, -0, 1e-45, -1e-40, 2 ** -41, -(2 ** -41), -(2 ** -40) * 0.99]) expect(one(x)).toBe(0);
    expect(one(2 ** -40)).toBe(0x2b80);
    expect(one(-(2 ** -40) * (1 - 2 ** -10))).toBe(0xab80);
  });

  it('refuses what is not finite or above 2^10, with name and index', () => {
    expect(one(1024)).toBe(0x4480);
    expect(one(1025)).toBe(0x4480);
    const words = [0x7f800000, 0xff800000, 0x7fc00000, 0x7fffffff, 0xffffffff, 0x7f800001, 0x7f7fffff, 0x44818000];
    for (const word of words) {
      const values = new Float32Array(new Uint32Array([0x3f800000, word]).buffer);
      expect(badWeights(() => encodeBf16('layer.7', values))).toMatch(/^layer\.7: element 1 is not finite/);
    }
    const above = (): unknown => checkBf16('w', Uint16Array.of(0x4481));
    expect(badWeights(above)).toMatch(/^w: element 0/);
    expect(badWeights(() => checkBf16('w', Uint16Array.of(0, 0x7fc0)))).toMatch(/^w: element 1/);
    expect([...checkBf16('w', Uint16Array.of(0x8000, 0x2b7f, 0xab80, 0x4480))]).toEqual([0, 0, 0xab80, 0x4480]);
  });

  it('reads a view that starts anywhere in its buffer', () => {
    expect([...encodeBf16('w', Float32Array.of(9, 1, 2).subarray(1))]).toEqual([0x3f80, 0x4000]);
  });
});

describe('vectors', () => {
  it('are checked by their role', () => {
    expect(badWeights(() => checkVector('n', 'norm', Float32Array.of(1, 2 ** 41)))).toMatch(/^n: element 1/);
    expect(badWeights(() => checkVector('b', 'bias', Float32Array.of(2 ** -81)))).toMatch(/below 2\^-80/);
    expect(badWeights(() => checkVector('b', 'bias', Float32Array.of(Number.NaN)))).toMatch(/not finite/);
    const values = Float32Array.of(0, -(2 ** -80), 2 ** 40);
    expect(encodeWeight({ kind: 'vector', name: 'b', size: 3, role: 'bias' }, values)).toEqual({
      kind: 'vector',
      values,
    });
    expect(checkVector('n', 'norm', Float32Array.of(2 ** -100))).toHaveLength(1);
  });
});

describe('rope tables', () => {
  it('are cosine and sine in 12 bits on a grid of 2^-40, without -0', () => {
    const inverseFrequencies = [1, 0.1, 0.001, 0];
    for (const attentionFactor of [1, 1.1386]) {
      const { cosine, sine } = ropeTables({ inverseFrequencies, attentionFactor }, 600);
      for (let position = 0; position < 600; position++) {
        for (const [pair, frequency] of inverseFrequencies.entries()) {
          const i = position * 4 + pair;
          const exact = [Math.cos(position * frequency), Math.sin(position * frequency)].map(
            (x) => x * attentionFactor,
          );
          for (const [k, x] of [cosine[i]!, sine[i]!].entries()) {
            expect(Math.abs(x - exact[k]!)).toBeLessThanOrEqual(Math.abs(exact[k]!) * 2 ** -12 + 2 ** -41);
            expect(Number.isInteger(x * 2 ** 40) && (bitsOf(x) & 0xfff) === 0 && !Object.is(x, -0)).toBe(true);
          }
        }
      }
    }
  });
});
