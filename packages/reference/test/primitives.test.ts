import { bitsOf, fromBits, pow2, r12 } from '@stet/backend/numerics';
import {
  b1,
  exp2q,
  itof,
  r16,
  recip,
  rne,
  rshift,
  rsqrt,
  scaleDown,
  silu,
  splitHigh,
  splitLow,
  truncateQ16,
} from '@stet/reference';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const anyBits = fc.integer({ min: 0, max: 0xffffffff });
const finite = anyBits.filter((bits) => (bits & 0x7f800000) !== 0x7f800000).map(fromBits);

/** Significant bits of an f32: 24 less the trailing zeros of its mantissa. */
function significantBits(x: number): number {
  if (x === 0) return 0;
  const mantissa = (bitsOf(x) & 0x7fffff) | 0x800000;
  return 24 - (31 - Math.clz32(mantissa & -mantissa));
}

describe('exp2q', () => {
  it('is within 2^-15.7 of 2^x, monotone and in range for all 65536 fractions', () => {
    let worst = 0;
    let previous = 0;
    for (let fraction = 0; fraction < 65536; fraction++) {
      const power = exp2q(fraction);
      worst = Math.max(worst, Math.abs(power / (32768 * 2 ** (fraction / 65536)) - 1));
      if (power < previous || power < 32768 || power > 65535) throw new Error(`exp2q(${fraction}) is ${power}`);
      previous = power;
    }
    expect(exp2q(0)).toBe(32768);
    expect(worst).toBeLessThan(1.78e-5);
  });

  it('has no intermediate beyond u32, so that every device computes the same', () => {
    for (let f = 0; f < 65536; f++) {
      const a3 = 27394 + Math.floor((f * 56308) / 2 ** 19);
      const a2 = 31625 + Math.floor((f * a3) / 2 ** 18);
      const a1 = 45420 + Math.floor((f * a2) / 2 ** 17);
      if (Math.max(f * 56308, f * a3, f * a2, f * a1 + 65536) >= 2 ** 32) throw new Error(`${f} overflows`);
      if (exp2q(f) !== 32768 + Math.floor((f * a1 + 65536) / 2 ** 17)) throw new Error(`exp2q(${f}) differs`);
    }
  });
});

describe('recip', () => {
  it('is within 2^-15.4 of 1/x, monotone and unbiased over the mantissas', () => {
    const { worst, bias } = sweep(recip, (x) => 1 / x, [1, 2]);
    expect(worst).toBeLessThan(2.29e-5);
    expect(Math.abs(bias)).toBeLessThan(1e-7);
  });

  it('is exact for powers of two and follows the exponent', () => {
    for (let k = -100; k <= 100; k++) {
      expect(recip(pow2(k))).toBe(pow2(-k));
      expect(recip(Math.fround(1.7) * pow2(k))).toBe(recip(Math.fround(1.7)) * pow2(-k));
    }
  });
});

describe('rsqrt', () => {
  it('is within 2^-15.4 of 1/sqrt(x), monotone and unbiased over the mantissas of both parities', () => {
    const { worst, bias } = sweep(rsqrt, (x) => 1 / Math.sqrt(x), [1, 4]);
    expect(worst).toBeLessThan(2.3e-5);
    expect(Math.abs(bias)).toBeLessThan(1e-7);
  });

  it('is exact for powers of four and follows the exponent', () => {
    for (let k = -50; k <= 50; k++) {
      expect(rsqrt(pow2(2 * k))).toBe(pow2(-k));
      expect(rsqrt(Math.fround(2.7) * pow2(2 * k))).toBe(rsqrt(Math.fround(2.7)) * pow2(-k));
    }
  });
});

describe('silu', () => {
  it('is within 6e-5 of g·sigmoid(g) from -40 to 40 and keeps its sign', () => {
    let worst = 0;
    for (let i = -40 * 1024; i <= 40 * 1024; i++) {
      const g = Math.fround(i / 1024 + 1 / 4096);
      const exact = g / (1 + Math.exp(-g));
      worst = Math.max(worst, Math.abs(silu(g) / exact - 1));
    }
    expect(worst).toBeLessThan(6e-5);
    expect(silu(0)).toBe(0);
    expect(silu(2 ** 60)).toBe(2 ** 60);
    expect(Math.abs(silu(-(2 ** 40)))).toBeLessThanOrEqual(2 ** -23);
  });
});

describe('roundings', () => {
  it('r12 and r16 keep 12 and 16 significant bits, nearest, for values between their flush and their cap', () => {
    for (const [round, bits, cap] of [[r12, 12, 2 ** 50] as const, [r16, 16, 2 ** 30] as const]) {
      fc.assert(
        fc.property(finite, (x) => {
          const y = round(x);
          expect(significantBits(y)).toBeLessThanOrEqual(bits);
          if (Math.abs(x) < 2 ** -50) expect(Object.is(y, 0)).toBe(true);
          else if (Math.abs(x) >= cap) expect(y).toBe(Math.sign(x) * cap);
          else expect(Math.abs(y - x)).toBeLessThanOrEqual(Math.abs(x) * 2 ** -bits);
        }),
        { numRuns: 2000 },
      );
    }
    expect(r16(fromBits(0x26800000))).toBe(2 ** -50);
    expect(Object.is(r16(fromBits(0xa67fffff)), 0)).toBe(true);
  });

  it('split gives two parts of 12 bits that add up to the clamped value', () => {
    fc.assert(
      fc.property(finite, (x) => {
        const high = splitHigh(x);
        const low = splitLow(x);
        const clamped = Math.abs(x) < 2 ** -50 ? 0 : Math.max(-(2 ** 50), Math.min(2 ** 50, x));
        expect(high + low).toBe(clamped);
        expect(Math.max(significantBits(high), significantBits(low))).toBeLessThanOrEqual(12);
        expect(Math.fround(low)).toBe(low);
      }),
      { numRuns: 2000 },
    );
  });

  it('rne rounds ties to even and gives no -0', () => {
    expect([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 16255.5].map(rne)).toEqual([-2, -2, 0, 0, 2, 2, 16256]);
    expect(Object.is(rne(-0.25), 0)).toBe(true);
  });

  it('itof is the nearest f32 of every i32 that attention can sum up', () => {
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 28), max: 2 ** 28 }), (a) => itof(a) === Math.fround(a)),
      { numRuns: 5000 },
    );
    for (const a of [0, -1, 16777217, 16777219, -16777217, -16777219, 33554434, 134217727, -134217727]) {
      expect(Object.is(itof(a), Math.fround(a))).toBe(true);
    }
  });

  it('rshift rounds half up and is zero from a shift of 16', () => {
    expect([rshift(5, 0), rshift(5, 1), rshift(4, 3), rshift(3, 3), rshift(16383, 14), rshift(16383, 16)]).toEqual([
      5, 3, 1, 0, 1, 0,
    ]);
    expect(rshift(16383, 15)).toBe(0);
    expect(rshift(16384, 15)).toBe(1);
    expect(rshift(16383, 100)).toBe(0);
  });

  it('scaleDown is exact until it drops what is below 2^-90 or shifted by 64', () => {
    expect(scaleDown(3, 63)).toBe(3 * 2 ** -63);
    expect(scaleDown(3, 64)).toBe(0);
    expect(scaleDown(2 ** -80, 10)).toBe(2 ** -90);
    expect(Object.is(scaleDown(-(2 ** -80), 11), 0)).toBe(true);
  });

  it('truncateQ16 truncates toward zero and clamps at 2^30', () => {
    expect([1.9, -1.9, 0, 2 ** 31, -(2 ** 40)].map(truncateQ16)).toEqual([1, -1, 0, 2 ** 30, -(2 ** 30)]);
    expect(truncateQ16(-0.5)).toBe(0);
  });

  it('b1 clears the last bit alone', () => {
    fc.assert(fc.property(finite, (x) => bitsOf(b1(x)) === (bitsOf(x) & ~1) >>> 0));
  });
});

/** Errors of a falling function over every 7th mantissa of [from, to). */
function sweep(
  approximate: (x: number) => number,
  exact: (x: number) => number,
  [from, to]: [number, number],
): { worst: number; bias: number } {
  let worst = 0;
  let sum = 0;
  let count = 0;
  let previous = Number.POSITIVE_INFINITY;
  for (let scale = from; scale < to; scale *= 2) {
    for (let mantissa = 0x800000; mantissa < 0x1000000; mantissa += 7) {
      const x = (mantissa / 0x800000) * scale;
      const y = approximate(x);
      if (y > previous) throw new Error(`not monotone at ${x}`);
      previous = y;
      const error = y / exact(x) - 1;
      worst = Math.max(worst, Math.abs(error));
      sum += error;
      count++;
    }
  }
  return { worst, bias: sum / count };
}
