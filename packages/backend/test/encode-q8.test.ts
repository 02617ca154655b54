import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isStetError } from '../src/index.js';
import { encodeQ8, encodeWeight, fromBits } from '../src/numerics/index.js';

/** x = digits · 2^exponent with odd digits. */
function oddDigits(x: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  let digits = (view.getBigUint64(0) & ((1n << 52n) - 1n)) | (1n << 52n);
  while (digits % 2n === 0n) digits /= 2n;
  return Number(digits);
}

const sumOfMagnitudes = (quants: Int8Array): number => quants.reduce((sum, quant) => sum + Math.abs(quant), 0);

/** The scale of a block of integers times `unit`, a power of two, by integers alone as far as the step goes. */
function scaleByIntegers(integers: readonly number[], unit: number): number {
  const largest = integers.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const sum = integers.reduce((a, b) => a + Math.abs(b), 0);
  // In steps of 2^-20 units and more: every step there can be for integers from 127 up.
  for (let step = 1; ; step *= 2) {
    const digits = Number((BigInt(largest) * 2n ** 20n + BigInt(127 * step) - 1n) / BigInt(127 * step));
    const exact = (largest * 2 ** 20) / 127 / step;
    if (exact >= 256 || sum * 2 ** 20 + 16 * digits * step > 132104 * step) continue;
    const scales = exact === digits ? [digits] : [digits, digits - 1];
    const [upper, lower] = scales.map((m) => {
      const scale = m * step * 2 ** -20;
      return { scale, error: integers.reduce((total, n) => total + (nearest(n, scale) * scale - n) ** 2, 0) };
    });
    return (lower && lower.error < upper!.error ? lower : upper!).scale * unit;
  }
}

function nearest(n: number, scale: number): number {
  const place = n * (1 / scale);
  const below = Math.floor(place);
  const tie = place - below === 0.5;
  return Math.max(-127, Math.min(127, tie ? below + (below % 2 === 0 ? 0 : 1) : Math.round(place)));
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

/** Integers of a bell, as a quantized file has them: the largest of each block is 127. */
function fileBlocks(count: number): number[][] {
  let state = 9;
  const uniform = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 8) / 2 ** 24 - 0.5;
  };
  return Array.from({ length: count }, () => {
    const bell = Array.from({ length: 32 }, () => uniform() + uniform() + uniform() + uniform());
    const largest = Math.max(...bell.map(Math.abs));
    return bell.map((x) => Math.round((x / largest) * 127));
  });
}

const weight = fc.oneof(
  fc.float({ min: -1000, max: 1000, noNaN: true }),
  fc.constantFrom(0, -0, 2 ** -149, 2 ** -41, 127 * 1984, -127 * 1984, 127 * 2 ** -40, 1),
  fc.integer({ min: -127, max: 127 }).map((n) => n * 2 ** -9),
);

describe('encodeQ8', () => {
  it('has scales whose bits, beside the quants of their block, keep every product exact', () => {
    fc.assert(
      fc.property(fc.array(weight, { minLength: 1, maxLength: 70 }), (values) => {
        const { quants, scales } = encodeQ8('w', Float32Array.from(values), 1, values.length);
        for (const [block, scale] of scales.entries()) {
          expect(scale >= 2 ** -40 && scale <= 1984).toBe(true);
          const digits = oddDigits(scale);
          expect(digits).toBeLessThan(256);
          const sum = sumOfMagnitudes(quants.subarray(block * 32, block * 32 + 32));
          expect(127 * sum * digits).toBeLessThanOrEqual(2 ** 24);
        }
      }),
      { numRuns: 3000 },
    );
  });

  it('has the scale that the definition gives, step by step', () => {
    const integer = fc.oneof(fc.integer({ min: -4000, max: 4000 }), fc.integer({ min: -3, max: 3 }));
    fc.assert(
      fc.property(
        fc.array(integer, { minLength: 1, maxLength: 31 }),
        fc.integer({ min: 127, max: 4095 }),
        fc.integer({ min: -30, max: 5 }),
        (some, largest, exponent) => {
          const integers = [...some.map((n) => Math.max(-largest, Math.min(largest, n))), -largest];
          const values = Float32Array.from(integers, (n) => n * 2 ** exponent);
          const { scales } = encodeQ8('w', values, 1, values.length);
          expect(scales[0]).toBe(scaleByIntegers(integers, 2 ** exponent));
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('has five bits where all weights are large, eight where most are small', () => {
    const full = (value: number): Float32Array => new Float32Array(32).fill(value);
    const lone = (value: number): Float32Array => Float32Array.from({ length: 32 }, (_, i) => (i === 5 ? value : 0));
    const next = (value: number): number => {
      const bits = new Uint32Array(Float32Array.of(value).buffer);
      return fromBits(bits[0]! + 1);
    };
    for (const [values, scale] of [
      [full(0), 2 ** -40],
      [full(127), 1],
      [full(127 * 31), 31],
      [full(127 * 1984), 1984],
      [full(127 * 2 ** -40), 2 ** -40],
      [lone(127 * 255), 255],
      [lone(127 * 1.9921875), 1.9921875],
      // One weight that no quant and scale give: the scale below it is nearer.
      [lone(next(127)), 1],
      [lone(next(127 * 2 ** -40)), 2 ** -40],
    ] as const) {
      expect([...encodeQ8('w', values, 1, 32).scales]).toEqual([scale]);
    }
  });

  it('keeps every weight within half a step, but those that a smaller scale cuts, within a step', () => {
    const values = fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: 45, maxLength: 45 });
    fc.assert(
      fc.property(values, (flat) => {
        const { quants, scales } = encodeQ8('w', Float32Array.from(flat), 1, 45);
        expect(quants).toHaveLength(64);
        for (let i = 0; i < 45; i++) {
          const scale = scales[Math.floor(i / 32)]!;
          const isCut = Math.abs(flat[i]!) > 127.5 * scale;
          // A scale of five bits is 1/16 of its size below the next: 8 of its steps at 127.
          expect(Math.abs(quants[i]! * scale - flat[i]!)).toBeLessThanOrEqual(scale * (isCut ? 8 : 0.5 + 2 ** -40));
          if (isCut) expect(Math.abs(quants[i]!)).toBe(127);
        }
        expect(quants.subarray(45).every((quant) => quant === 0)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('loses less of the integers of a file of eight bits than scales of five bits do', () => {
    let own = 0;
    let coarse = 0;
    for (const [block, integers] of fileBlocks(2000).entries()) {
      const fileScale = (1024 + ((block * 389) % 1024)) / 1024;
      const values = Float32Array.from(integers, (n) => n * fileScale);
      const { quants, scales } = encodeQ8('w', values, 1, 32);
      const five = Math.ceil(fileScale * 16) / 16;
      for (const [i, value] of values.entries()) {
        own += (quants[i]! * scales[0]! - value) ** 2;
        coarse += (Math.round(value / five) * five - value) ** 2;
      }
    }
    expect(Math.sqrt(own / coarse)).toBeLessThan(0.8);
    expect(own).toBeGreaterThan(0);
  });

  it('sends ties to the even quant and starts each row at a block', () => {
    const values = Float32Array.of(127, 0.5, 1.5, -2.5, /* row 1 */ -63.5, 0.25, 0.75, -0.25);
    const { quants, scales } = encodeQ8('w', values, 2, 4);
    expect([...quants.subarray(0, 4), ...quants.subarray(32, 36)]).toEqual([127, 0, 2, -2, -127, 0, 2, 0]);
    expect([...scales]).toEqual([1, 0.5]);
  });

  it('refuses what is not finite or above 127 · 1984, with name and index', () => {
    const values = new Float32Array(40);
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, -127 * 1985]) {
      values[37] = bad;
      expect(badWeights(() => encodeQ8('head', values, 1, 40))).toMatch(/^head: element 37/);
    }
  });

  it('is what encodeWeight gives for the format', () => {
    const values = Float32Array.from(fileBlocks(2).flat());
    const spec = { kind: 'matrix', name: 'w', rows: 2, columns: 32, format: 'q8' } as const;
    expect(encodeWeight(spec, values)).toEqual({ kind: 'q8', ...encodeQ8('w', values, 2, 32) });
  });
});
