import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isStetError } from '../src/index.js';
import { encodeQ4, encodeWeight, fromBits, type Q4Arrays } from '../src/numerics/index.js';

/** Quants of a row of `count` elements, by element. */
function quantsOf({ nibbles }: Q4Arrays, count: number, firstBlock = 0): number[] {
  return Array.from({ length: count }, (_, i) => {
    const pair = nibbles[(firstBlock + Math.floor(i / 32)) * 16 + (i & 15)]!;
    return (i & 16) === 0 ? pair & 15 : pair >> 4;
  });
}

const bf16 = (bits: number): number => fromBits(bits << 16);

/** Values that a row stands for, in f64. */
function valuesOf(arrays: Q4Arrays, count: number): number[] {
  return quantsOf(arrays, count).map((quant, i) => {
    const block = Math.floor(i / 32);
    return bf16(arrays.scales[block]!) * (quant - 8) + bf16(arrays.centres[block]!);
  });
}

const squaredError = (values: ArrayLike<number>, stored: readonly number[]): number =>
  stored.reduce((sum, x, i) => sum + (x - values[i]!) ** 2, 0);

const roundedToBf16 = (x: number): number => {
  const unit = 2 ** (Math.floor(Math.log2(Math.abs(x))) - 7);
  return x === 0 ? 0 : Math.round(x / unit) * unit;
};

/** The plain way: the centre of the whole range, and the least scale, rounded to bf16, with which both ends are reached. */
function plainError(values: Float32Array): number {
  const least = values.reduce((a, b) => Math.min(a, b));
  const largest = values.reduce((a, b) => Math.max(a, b));
  const centre = roundedToBf16((7 * least + 8 * largest) / 15);
  const scale = roundedToBf16(Math.max((centre - least) / 8, (largest - centre) / 7));
  const stored = Array.from(values, (w) => {
    const step = scale === 0 ? 0 : Math.max(-8, Math.min(7, Math.round((w - centre) / scale)));
    return scale * step + centre;
  });
  return squaredError(values, stored);
}

function badWeights(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    if (isStetError(error) && error.code === 'STET_ERR_BAD_WEIGHTS') return error.message;
    throw error;
  }
  return 'nothing was thrown';
}

/** Bell-shaped blocks, as trained weights are. */
function bellBlock(seed: number): Float32Array {
  let state = seed;
  const uniform = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 8) / 2 ** 24 - 0.5;
  };
  return Float32Array.from({ length: 32 }, () => uniform() + uniform() + uniform() + uniform());
}

describe('encodeQ4', () => {
  it('keeps blocks of sixteen equal steps as they are', () => {
    for (const [scale, minimum] of [
      [1, 0],
      [0.125, -1],
      [3, -24],
      [2 ** -40, 2 ** -33],
      [64, 64],
    ] as const) {
      const values = Float32Array.from({ length: 32 }, (_, i) => scale * ((i * 7) % 16) + minimum);
      const arrays = encodeQ4('w', values, 1, 32);
      expect(valuesOf(arrays, 32)).toEqual([...values]);
      expect(quantsOf(arrays, 32)).toEqual(Array.from({ length: 32 }, (_, i) => (i * 7) % 16));
    }
  });

  it('puts element i in the low half of byte i and element i + 16 in its high half, each row from a block on', () => {
    const ramp = Array.from({ length: 16 }, (_, i) => i);
    const values = Float32Array.from([
      ...ramp,
      ...ramp.toReversed(),
      0,
      15,
      3,
      ...ramp.toReversed(),
      ...ramp,
      15,
      0,
      3,
    ]);
    const arrays = encodeQ4('w', values, 2, 35);
    expect([...arrays.nibbles.subarray(0, 16)]).toEqual(ramp.map((i) => i | ((15 - i) << 4)));
    expect([...arrays.nibbles.subarray(16, 20)]).toEqual([0x80, 0x8f, 0x83, 0x88]);
    expect([...arrays.nibbles.subarray(32, 48)]).toEqual(ramp.map((i) => (15 - i) | (i << 4)));
    expect([...arrays.nibbles.subarray(48, 52)]).toEqual([0x8f, 0x80, 0x83, 0x88]);
    expect([...arrays.scales].map(bf16)).toEqual([1, 1, 1, 1]);
    expect([...arrays.centres].map(bf16)).toEqual([8, 8, 8, 8]);
  });

  it('has padding of quant 8 in a target that is given, and writes nothing else there', () => {
    const target = { nibbles: new Uint8Array(64), scales: new Uint16Array(4), centres: new Uint16Array(4) };
    const values = bellBlock(5).subarray(0, 20);
    const part = {
      nibbles: target.nibbles.subarray(16, 32),
      scales: target.scales.subarray(1, 2),
      centres: target.centres.subarray(1, 2),
    };
    encodeQ4('w', values, 1, 20, part);
    expect(part).toEqual(encodeQ4('w', values, 1, 20));
    expect([...target.nibbles.subarray(0, 16), ...target.nibbles.subarray(32)].every((byte) => byte === 0)).toBe(true);
    expect(
      quantsOf(part, 32)
        .slice(20)
        .every((quant) => quant === 8),
    ).toBe(true);
  });

  it('is never worse than the whole range in sixteen steps, and much better over trained weights', () => {
    let error = 0;
    let plain = 0;
    for (let seed = 1; seed <= 4000; seed++) {
      const values = bellBlock(seed * 7919);
      const own = squaredError(values, valuesOf(encodeQ4('w', values, 1, 32), 32));
      const other = plainError(values);
      expect(own).toBeLessThanOrEqual(other * (1 + 1e-12));
      error += own;
      plain += other;
    }
    expect(error / plain).toBeLessThan(0.9);
  });

  it('keeps each weight within a step and what bf16 takes from the ends', () => {
    const values = fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(values, (flat) => {
        const weights = Float32Array.from(flat);
        const stored = valuesOf(encodeQ4('w', weights, 1, 32), 32);
        const range = Math.max(...flat) - Math.min(...flat);
        const largest = Math.max(...flat.map(Math.abs));
        // All squared errors together are at most those of 32 weights that are half a step off, of rounded ends, and of
        // eight steps and a centre that are too small to be kept.
        const most = Math.sqrt(32) * (range / 30 + largest * 2 ** -8 + range * 2 ** -8 + 9 * 2 ** -40);
        expect(Math.sqrt(squaredError(weights, stored))).toBeLessThanOrEqual(most);
      }),
      {
        numRuns: 500,
        // A step below the least scale, and a centre that is kept.
        examples: [[[...new Array<number>(31).fill(0), -6.208_244_422_017_95e-12]]],
      },
    );
  });

  it('has scales and centres of 8 bits within the domain, and +0 for what is below it', () => {
    const value = fc.oneof(
      fc.float({ min: -1024, max: 1024, noNaN: true }),
      fc.constantFrom(0, -0, 2 ** -41, -(2 ** -41), 2 ** -149, 1024, -1024, 1023.9375),
    );
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 40 }), (flat) => {
        const { scales, centres } = encodeQ4('w', Float32Array.from(flat), 1, flat.length);
        for (const bits of [...scales, ...centres]) {
          const size = Math.abs(bf16(bits));
          expect(bits === 0 || (size >= 2 ** -40 && size <= 2 ** 10)).toBe(true);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('gives blocks of one value a centre and what bf16 took from it', () => {
    for (const value of [0, -0, 1, -0.3, 0.1, 1024, -1024, 2 ** -41]) {
      const stored = valuesOf(encodeQ4('w', new Float32Array(32).fill(value), 1, 32), 32);
      for (const x of stored)
        expect(Math.abs(x - Math.fround(value))).toBeLessThanOrEqual(Math.abs(value) * 2 ** -16 + 2 ** -40);
    }
    expect(encodeQ4('w', new Float32Array(32).fill(-0), 1, 32)).toEqual({
      nibbles: new Uint8Array(16).fill(0x88),
      scales: new Uint16Array(1),
      centres: new Uint16Array(1),
    });
  });

  it('refuses what is not finite or above 2^10, with name and index', () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, -1025, 1024.0001]) {
      const values = new Float32Array(80);
      values[77] = bad;
      expect(badWeights(() => encodeQ4('head', values, 2, 40))).toMatch(
        /^head: element 77 is not finite or above 2\^10/,
      );
    }
  });

  it('is what encodeWeight gives for the format', () => {
    const values = bellBlock(3);
    const spec = { kind: 'matrix', name: 'w', rows: 2, columns: 16, format: 'q4' } as const;
    expect(encodeWeight(spec, values)).toEqual({ kind: 'q4', ...encodeQ4('w', values, 2, 16) });
  });

  it('gives the bits that it gave when the golden models were recorded', () => {
    // The last block is made of half steps, so that quants tie.
    const halves = Float32Array.from({ length: 32 }, (_, i) => ((i * 7) % 31) / 2);
    const values = Float32Array.from([...bellBlock(11), ...bellBlock(12).map((x) => x * 0.01), ...halves]);
    const arrays = encodeQ4('w', values, 3, 32);
    const { scales, centres, nibbles } = arrays;
    expect([
      [...scales],
      [...centres],
      [...nibbles.subarray(0, 4)],
      quantsOf(arrays, 32, 2).join(' '),
    ]).toMatchInlineSnapshot(`
      [
        [
          15920,
          15078,
          16255,
        ],
        [
          48859,
          15060,
          16632,
        ],
        [
          100,
          173,
          119,
          154,
        ],
        "0 4 7 11 14 2 6 9 13 1 4 8 11 15 3 6 10 13 1 5 8 12 15 3 7 10 14 2 5 9 12 0",
      ]
    `);
  });
});
