import { type WeightFormat, weightFormats } from '@stet/backend';
import { encodeQ8, encodeWeight, fromBits, pow2, r12 } from '@stet/backend/numerics';
import { allocateQ15, quantizeQ15, r16, runOp, splitHigh, splitLow } from '@stet/reference';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dequantize } from '../src/dequantize.js';

const finite = fc
  .integer({ min: 0, max: 0xffffffff })
  .filter((bits) => (bits & 0x7f800000) !== 0x7f800000)
  .map(fromBits);
const bf16 = fc.integer({ min: 0x2b80, max: 0x4480 }).map((bits) => fromBits(bits << 16));
const runs = { numRuns: 3000 };

/** An f64 product of two f32 values is exact, so it is exact in f32 if rounding does not change it, and normal. */
function isExact(product: number): boolean {
  return Math.fround(product) === product && (product === 0 || Math.abs(product) >= 2 ** -126);
}

describe('products that are added', () => {
  it('are exact for bf16 weights and activations of 16 bits', () => {
    fc.assert(
      fc.property(bf16, finite, (weight, x) => isExact(weight * r16(x))),
      runs,
    );
  });

  it('are exact for the dots of a q8 block and both of its scales', () => {
    const digits = fc.integer({ min: 16, max: 255 });
    const exponent = fc.integer({ min: -40, max: 20 });
    fc.assert(
      fc.property(
        digits.chain((m) => fc.tuple(fc.constant(m), fc.nat(Math.min(516128, Math.floor(2 ** 24 / m))), fc.boolean())),
        fc.integer({ min: -47, max: 3 }),
        exponent,
        ([m, size, negative], k, e) => {
          const d = negative ? -size : size;
          return isExact(d * (m * pow2(k)) * pow2(e)) && isExact(d * (m * pow2(k)) * pow2(e - 7));
        },
      ),
      runs,
    );
  });

  it('of a q8 block are those: no dot times the digits of its scale is above 2^24', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 32, maxLength: 32 }),
        fc.integer({ min: 0, max: 6 }),
        (some, power) => {
          const values = Float32Array.from(some, (x) => x ** (2 * power + 1));
          const { quants, scales } = encodeQ8('w', values, 1, 32);
          const largest = 127 * quants.reduce((sum, quant) => sum + Math.abs(quant), 0);
          expect(isExact(largest * scales[0])).toBe(true);
          let digits = scales[0];
          while (digits % 1 !== 0) digits *= 2;
          expect(largest * digits).toBeLessThanOrEqual(2 ** 24);
        },
      ),
      runs,
    );
  });

  it('are exact for the dots of a q4 block and its scale, and for a centre and the sum of a block', () => {
    const parameter = fc
      .tuple(fc.integer({ min: 0x2b80, max: 0x4480 }), fc.boolean())
      .map(([bits, negative]) => fromBits(bits << 16) * (negative ? -1 : 1));
    const exponent = fc.integer({ min: -40, max: 20 });
    const dots = fc.tuple(fc.integer({ min: -32512, max: 32512 }), fc.integer({ min: -16384, max: 16384 }));
    const sum = fc.integer({ min: -520192, max: 520192 });
    fc.assert(
      fc.property(parameter, exponent, dots, sum, (p, e, [high, low], s) => {
        const z = r16(s) * pow2(e - 7);
        return isExact(high * p * pow2(e)) && isExact(low * p * pow2(e - 7)) && isExact(z) && isExact(z * p);
      }),
      runs,
    );
  });

  it('reach those bounds in a block, and no others: quants of 0 and planes at their ends', () => {
    const input = Float32Array.from({ length: 64 }, (_, i) => (i < 32 ? 2 ** 30 : 127 - 2 ** -1));
    const planes = allocateQ15(64);
    quantizeQ15(input, 0, 64, planes, 0);
    const sumOf = (plane: Int8Array, block: number) =>
      plane.subarray(32 * block, 32 * block + 32).reduce((a, b) => a + b);
    expect(-8 * sumOf(planes.high, 0)).toBe(-32512);
    expect(-8 * sumOf(planes.low, 1)).toBe(16384);
    expect(128 * sumOf(planes.high, 0) + sumOf(planes.low, 0)).toBe(520192);
  });

  it('are exact for a q4 quant and its scale', () => {
    for (let quant = 0; quant < 16; quant++) {
      for (let bits = 0x2b80; bits <= 0x4480; bits++) expect(isExact((quant - 8) * fromBits(bits << 16))).toBe(true);
    }
  });

  it('are exact for squares of r12 and for both halves of a rotation', () => {
    const table = fc
      .integer({ min: -(2 ** 41), max: 2 ** 41 })
      .map((n) => Math.round(r12(n / 2 ** 40) * 2 ** 40) / 2 ** 40);
    fc.assert(
      fc.property(
        finite,
        table,
        (x, c) => isExact(r12(x) ** 2) && isExact(splitHigh(x) * c) && isExact(splitLow(x) * c),
      ),
      runs,
    );
  });

  it('stay within i32 and 24 bits in attention at the extremes', () => {
    const chunk = 64;
    const power = 16383;
    expect(chunk * power * 127).toBeLessThan(2 ** 27);
    expect(128 * chunk * (power >> 7) * 127 + chunk * ((power >> 7) * 64 + 127 * 127)).toBeLessThan(2 ** 27);
    expect(chunk * power).toBeLessThan(2 ** 20);
    expect(32 * (127 * 64 + 64 * 127)).toBeLessThan(2 ** 19);
  });
});

describe('Q15', () => {
  it('keeps the planes in range, and each value within half a step of its block', () => {
    fc.assert(
      fc.property(fc.array(finite, { minLength: 1, maxLength: 70 }), (values) => {
        const input = Float32Array.from(values);
        const quantized = allocateQ15(Math.ceil(input.length / 32) * 32);
        quantizeQ15(input, 0, input.length, quantized, 0);
        for (let i = 0; i < quantized.high.length; i++) {
          const { high, low } = quantized;
          expect(high[i] >= -127 && high[i] <= 127 && low[i] >= -64 && low[i] <= 63).toBe(true);
          const exponent = quantized.exponents[Math.floor(i / 32)];
          const step = pow2(exponent - 7);
          const clamped = Math.max(-16256 * step, Math.min(16256 * step, i < input.length ? input[i] : 0));
          expect(Math.abs((128 * high[i] + low[i]) * step - clamped)).toBeLessThanOrEqual(step / 2);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('changes exponent one ulp above 127 · 2^e, and at no other place', () => {
    for (const [value, exponent] of [
      [127, 0],
      [fromBits(0x42fe0001), 1],
      [63.5, -1],
      [2 ** 40, 20],
      [0, -40],
      [2 ** -60, -40],
    ] as const) {
      const quantized = allocateQ15(32);
      quantizeQ15(Float32Array.of(value), 0, 1, quantized, 0);
      expect(quantized.exponents[0]).toBe(exponent);
    }
  });

  it('gives a zero for subnormals and -0, whether or not a device flushes them', () => {
    const quantized = allocateQ15(32);
    quantizeQ15(Float32Array.of(-0, 1e-40, -1e-44, 2 ** -49), 0, 4, quantized, 0);
    expect([...quantized.high, ...quantized.low].every((quant) => quant === 0)).toBe(true);
  });
});

describe('rows of a linear', () => {
  const width = 70;
  const row = fc.array(fc.double({ min: -8, max: 8, noNaN: true }), { minLength: width, maxLength: width });

  it('do not depend on the other rows, in any format', () => {
    const weights = Float32Array.from({ length: 9 * width }, (_, i) => Math.fround(Math.sin(i) / 4));
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 7 }), fc.constantFrom(...weightFormats), (rows, format) => {
        const all = linearRows(rows.flat(), weights, format);
        rows.forEach((values, i) => {
          expect(all.slice(i * 9, i * 9 + 9)).toEqual(linearRows(values, weights, format));
        });
      }),
      { numRuns: 60 },
    );
  });

  function linearRows(values: number[], weights: Float32Array, format: WeightFormat): Float32Array {
    const weight = encodeWeight({ kind: 'matrix', name: 'w', rows: 9, columns: width, format }, weights);
    return runOp({ kind: 'linear', format, rows: 9, columns: width, weight, input: Float32Array.from(values) });
  }
});

describe('a q4 linear', () => {
  const columns = 300;

  it('is within what its roundings allow of the product with the values that its blocks stand for', () => {
    const value = fc.double({ min: -8, max: 8, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(value, { minLength: columns, maxLength: columns }),
        fc.integer({ min: 0, max: 99 }),
        (x, seed) => {
          const spec = { kind: 'matrix', name: 'w', rows: 5, columns, format: 'q4' } as const;
          const values = Float32Array.from({ length: 5 * columns }, (_, i) => Math.fround(Math.sin(i + seed) / 4));
          const weight = encodeWeight(spec, values);
          const input = Float32Array.from(x);
          const output = runOp({ kind: 'linear', format: 'q4', rows: 5, columns, weight, input });
          const stored = dequantize(spec, weight);
          for (let n = 0; n < 5; n++) {
            let truth = 0;
            let size = 0;
            for (let k = 0; k < columns; k++) {
              truth += stored[n * columns + k] * input[k];
              size += Math.abs(stored[n * columns + k]);
            }
            // Half a step of activations of at most 8, and 2^-17 of the sum of each of ten blocks.
            expect(Math.abs(output[n] - truth)).toBeLessThan(size * 2 ** -11 + 2 ** -7);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('does not read what stands past the end of a row', () => {
    const random = (i: number): number => (Math.imul(i + 1, 2654435761) >>> 24) & 255;
    const nibbles = Uint8Array.from({ length: 3 * 10 * 16 }, (_, i) => random(i));
    const scales = Uint16Array.from({ length: 30 }, (_, i) => 0x3c00 + random(i + 1000));
    const centres = Uint16Array.from({ length: 30 }, (_, i) => 0xbc00 + random(i + 2000));
    const other = nibbles.slice();
    // 300 columns leave 12 elements in the last block: those in the low halves of its first 12 bytes.
    for (let row = 0; row < 3; row++) {
      for (let i = 0; i < 16; i++) other[(row * 10 + 9) * 16 + i] ^= i < 12 ? 0xf0 : 0xff;
    }
    const input = Float32Array.from({ length: 2 * columns }, (_, i) => Math.sin(i));
    const run = (bytes: Uint8Array): Float32Array => {
      const weight = { kind: 'q4', nibbles: bytes, scales, centres } as const;
      return runOp({ kind: 'linear', format: 'q4', rows: 3, columns, weight, input });
    };
    expect(run(other)).toEqual(run(nibbles));
  });
});

describe('groups of a norm', () => {
  it('are rows of the width of a group, to the bit', () => {
    const shape = fc.tuple(fc.constantFrom(1, 2, 16, 48, 130), fc.integer({ min: 1, max: 5 }));
    const value = fc.double({ min: -1000, max: 1000, noNaN: true });
    fc.assert(
      fc.property(
        shape,
        fc.array(value, { minLength: 130 * 5, maxLength: 130 * 5 }),
        ([groupWidth, groupCount], values) => {
          const width = groupWidth * groupCount;
          const input = Float32Array.from(values.slice(0, width));
          const weight = Float32Array.from({ length: groupWidth }, (_, i) => 1 + i / 256);
          const norm = { kind: 'rmsNorm', epsilon: 1e-6, weight, input } as const;
          expect(runOp({ ...norm, width, groupCount })).toEqual(runOp({ ...norm, width: groupWidth }));
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('a window of attention', () => {
  const size = 16;
  const sizes = { kind: 'attention', headCount: 1, kvHeadCount: 1, headSize: size, blockSize: 16 } as const;
  const seeded = (count: number, seed: number): Float32Array =>
    Float32Array.from({ length: count * size }, (_, i) => Math.fround(Math.sin(i * 7 + seed) * 3));
  const key = seeded(200, 1);
  const value = seeded(200, 2);
  const query = seeded(1, 3);

  it('changes nothing where it holds the whole context', () => {
    for (const position of [0, 1, 62, 63, 64, 130, 199]) {
      const whole = { ...sizes, key, value, query, queryPositions: Int32Array.of(position) };
      for (const windowSize of [position + 1, position + 2, 4096]) {
        expect(runOp({ ...whole, windowSize })).toEqual(runOp(whole));
      }
    }
  });

  it('that begins with a chunk gives what a sequence without the chunks before it gives', () => {
    for (const first of [64, 128]) {
      for (const position of [first, first + 5, 191, 199]) {
        const windowSize = position + 1 - first;
        const windowed = runOp({ ...sizes, key, value, query, windowSize, queryPositions: Int32Array.of(position) });
        const rest = { key: key.subarray(first * size), value: value.subarray(first * size) };
        expect(windowed).toEqual(runOp({ ...sizes, ...rest, query, queryPositions: Int32Array.of(position - first) }));
      }
    }
  });

  it('of one position gives its value, within what 15 bits hold', () => {
    for (const position of [0, 63, 64, 199]) {
      const output = runOp({ ...sizes, key, value, query, windowSize: 1, queryPositions: Int32Array.of(position) });
      for (const [i, x] of output.entries()) expect(Math.abs(x - value[position * size + i])).toBeLessThan(2 ** -10);
    }
  });
});
