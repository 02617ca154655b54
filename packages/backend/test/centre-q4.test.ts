import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isStetError } from '../src/index.js';
import { centreQ4, fromBits, type Q4Arrays } from '../src/numerics/index.js';

const bf16 = (bits: number): number => fromBits(bits << 16);

interface Block {
  readonly scale: number;
  readonly minimum: number;
  readonly quants: readonly number[];
}

function centred(blocks: readonly Block[]): Q4Arrays {
  const target = {
    nibbles: Uint8Array.from(
      blocks.flatMap(({ quants }) => quants.slice(0, 16).map((q, i) => q | (quants[i + 16]! << 4))),
    ),
    scales: new Uint16Array(blocks.length),
    centres: new Uint16Array(blocks.length),
  };
  const scales = Float32Array.from(blocks, ({ scale }) => scale);
  centreQ4('w', { scales, minima: Float32Array.from(blocks, ({ minimum }) => minimum) }, target);
  return target;
}

/** x in 8 bits, the way of a cast from f32: for the values here, which f32 holds, the bits are those of one rounding. */
function cast(x: number): number {
  const words = new Uint32Array(Float32Array.of(x).buffer);
  return (words[0]! + 0x7fff + ((words[0]! >>> 16) & 1)) >>> 16;
}

/** A half of `digits` and exponent, as files have them. */
const half = fc
  .tuple(fc.integer({ min: -2047, max: 2047 }), fc.integer({ min: -24, max: -12 }))
  .map(([digits, exponent]) => digits * 2 ** exponent);
const quants = fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 32, maxLength: 32 });
const ramp = Array.from({ length: 32 }, (_, i) => i % 16);

const codeOf = (call: () => unknown): string => {
  try {
    call();
  } catch (error) {
    if (isStetError(error)) return `${error.code} ${error.message}`;
    throw error;
  }
  return 'nothing was thrown';
};

describe('centreQ4', () => {
  it('rounds scales as a cast does', () => {
    fc.assert(
      fc.property(half, quants, (scale, q) => {
        expect(centred([{ scale, minimum: 1, quants: q }]).scales[0]).toBe(scale === 0 ? 0 : cast(scale));
      }),
    );
    // Ties go to the even neighbour: 257 and 259 in units of 2^-8.
    const ties = centred([257, 259, -257].map((n) => ({ scale: n / 256, minimum: 0, quants: ramp })));
    expect([...ties.scales].map(bf16)).toEqual([1, 260 / 256, -1]);
  });

  it('leaves a mean error of half a unit of the centre at most, and less than any other centre does', () => {
    fc.assert(
      fc.property(half, half, quants, (scale, minimum, q) => {
        fc.pre(minimum !== -8 * scale);
        const { scales, centres } = centred([{ scale, minimum, quants: q }]);
        // Exact: sums of multiples of 2^-24, below 2^20.
        const meanError = (bits: number): number =>
          q.reduce((sum, quant) => sum + (bf16(scales[0]!) * (quant - 8) + bf16(bits) - (scale * quant + minimum)), 0) /
          32;
        const centre = centres[0]!;
        const error = Math.abs(meanError(centre));
        // Bits of one sign are in the order of magnitudes; next to 0 there is nothing but the least of the domain.
        if ((centre & 0x7fff) > 0x2b80) {
          expect(error).toBeLessThanOrEqual(Math.abs(meanError(centre - 1)));
          expect(error).toBeLessThanOrEqual(Math.abs(meanError(centre + 1)));
          expect(error).toBeLessThanOrEqual(Math.abs(bf16(centre)) * 2 ** -8);
        } else expect(error).toBeLessThanOrEqual(2 ** -40);
      }),
      { numRuns: 2000 },
    );
  });

  it('is 0 where the minimum is minus eight scales, whatever the rounding of the scale took', () => {
    fc.assert(
      fc.property(half, quants, (scale, q) => {
        expect(centred([{ scale, minimum: -8 * scale, quants: q }]).centres[0]).toBe(0);
      }),
    );
  });

  it('takes the mean of all 32 integers of its own block', () => {
    // The scale loses 2^-9, so the centre has that of every step of the mean above 8, beside the offset of 1 / 64.
    const scale = 1 + 2 ** -9;
    const minimum = 2 ** -6 - 8 * scale;
    const blocks = Array.from({ length: 34 }, (_, at) => {
      const own = Array.from({ length: 32 }, (_, i) => (i === at || at === 33 ? 15 : 8));
      return { scale, minimum, quants: own };
    });
    const { scales, centres } = centred(blocks);
    expect([...scales].every((bits) => bits === 0x3f80)).toBe(true);
    const one = 2 ** -6 + (7 / 32) * 2 ** -9;
    for (let block = 0; block < 32; block++) expect(centres[block], `${block}`).toBe(cast(one));
    expect(bf16(centres[32]!)).toBe(2 ** -6);
    expect(bf16(centres[33]!)).toBe(2 ** -6 + 7 * 2 ** -9);
    const least = centred([{ scale, minimum, quants: new Array(32).fill(0) }]);
    expect([...least.centres]).toEqual([0]);
  });

  it('gives a scale of 0 its whole value as a centre', () => {
    const { scales, centres } = centred([
      { scale: 0, minimum: -0.75, quants: ramp },
      { scale: -0, minimum: 0, quants: ramp },
      { scale: 2 ** -41, minimum: 3, quants: ramp },
    ]);
    expect([...scales]).toEqual([0, 0, 0]);
    expect([...centres].map(bf16)).toEqual([-0.75, 0, 3]);
  });

  it('refuses scales and centres that are not finite or above 2^10, with name and block, and takes those at the end', () => {
    const good = { scale: 1, minimum: 0, quants: ramp };
    for (const scale of [1029, -1029, Number.POSITIVE_INFINITY, Number.NaN]) {
      expect(codeOf(() => centred([good, { ...good, scale }]))).toMatch(
        /^STET_ERR_BAD_WEIGHTS w, scales of blocks: element 1 is not finite or above 2\^10/,
      );
    }
    for (const minimum of [1025, -1040, Number.NEGATIVE_INFINITY, Number.NaN]) {
      expect(codeOf(() => centred([good, good, { ...good, minimum }]))).toMatch(
        /^STET_ERR_BAD_WEIGHTS w, centres of blocks: element 2 is not finite or above 2\^10/,
      );
    }
    const end = centred([{ scale: 1024, minimum: -7168, quants: ramp }]);
    expect([bf16(end.scales[0]!), bf16(end.centres[0]!)]).toEqual([1024, 1024]);
  });
});
