import { BLOCK, pow2 } from '../../numerics/index.js';
import type { WeightData } from '../../weights.js';
import type { OpCaseSpec } from './op-cases.js';
import { bellValues, createRandom, type Random } from './random.js';

/**
 * Scales and centres that fitting a block to weights hardly makes but files may have: zeros, both signs, the ends of
 * the domain, blocks whose quants are all 0, all 8 or all 15.
 */
export function q4ParameterCases(): OpCaseSpec[] {
  const name = 'scales and centres of every kind';
  return [
    {
      name: `embed q4: ${name}`,
      kind: 'embed',
      formats: ['q4'],
      subset: 'full',
      build: () => {
        const random = createRandom(701);
        const [rows, columns] = [7, 205];
        const table = parameterMatrix(random, rows, columns);
        return { kind: 'embed', rows, columns, table, tokens: Int32Array.from([6, 0, 1, 2, 3, 4, 5]) };
      },
    },
    {
      name: `linear q4: ${name}`,
      kind: 'linear',
      formats: ['q4'],
      subset: 'startup',
      build: () => {
        const random = createRandom(702);
        const [rows, columns] = [33, 333];
        const weight = parameterMatrix(random, rows, columns);
        return { kind: 'linear', format: 'q4', rows, columns, weight, input: sumInputs(random, columns) };
      },
    },
    {
      name: 'linear q4: centres alone',
      kind: 'linear',
      formats: ['q4'],
      subset: 'full',
      build: () => {
        const random = createRandom(703);
        const [rows, columns] = [16, 288];
        const { scales, ...rest } = parameterMatrix(random, rows, columns);
        const weight = { ...rest, scales: scales.fill(0) };
        return { kind: 'linear', format: 'q4', rows, columns, weight, input: sumInputs(random, columns) };
      },
    },
  ];
}

/** Ends of the domain, in bf16 bits: 0, 2^-40, 2^10, and all mantissas at ordinary sizes. */
function parameterBits(random: Random): number {
  const sign = random.below(2) << 15;
  const kinds = [0, 0x2b80, 0x4480];
  const kind = random.below(6);
  if (kind === 0) return 0;
  return sign | (kinds[kind] ?? 0x3b80 + random.below(0x180));
}

function parameterMatrix(random: Random, rows: number, columns: number): WeightData & { kind: 'q4' } {
  const blockCount = Math.ceil(columns / BLOCK);
  const count = rows * blockCount;
  const nibbles = new Uint8Array(count * 16).fill(0x88);
  for (let block = 0; block < count; block++) {
    const left = columns - (block % blockCount) * BLOCK;
    const fill = random.below(5);
    for (let i = 0; i < Math.min(BLOCK, left); i++) {
      const quant = [0, 8, 15][fill] ?? random.below(16);
      const at = block * 16 + (i & 15);
      const shift = i < 16 ? 0 : 4;
      nibbles[at] = (nibbles[at]! & ~(15 << shift)) | (quant << shift);
    }
  }
  const parameters = (): Uint16Array => Uint16Array.from({ length: count }, () => parameterBits(random));
  return { kind: 'q4', nibbles, scales: parameters(), centres: parameters() };
}

/**
 * Five rows: bell-shaped ones; all of one sign, so that sums of a block have 19 bits and lose some; sums one below, at
 * and above a tie of their rounding; sums of 0 although no activation is; the largest there are.
 */
function sumInputs(random: Random, columns: number): Float32Array {
  const fine = bellValues(random, columns);
  const positive = bellValues(random, columns).map((x) => Math.abs(x) + 1);
  const ties = Float32Array.from({ length: columns }, (_, i) => {
    // With the exponent 0 a step is 2^-7. 31 quants of 16000 and one near it: sums near 512000, in units of 8.
    const last = 16000 + random.below(17);
    return (i % BLOCK === 31 ? last : 16000) * pow2(-7);
  });
  const cancelling = fine.map((_, i) => {
    const pair = fine[i - (i % 2)]!;
    return i % 2 === 0 ? pair : -pair;
  });
  const largest = Float32Array.from({ length: columns }, () => pow2(30) * random.sign());
  const input = new Float32Array(5 * columns);
  for (const [row, values] of [fine, positive, ties, cancelling, largest].entries()) input.set(values, row * columns);
  return input;
}
