import { assert } from '../../errors.js';
import { fromBits, pow2 } from '../../numerics/index.js';
import type { OpCase } from '../../op-runner.js';
import type { OpCaseSpec } from './op-cases.js';
import { bellValues, createRandom, dropTiny, hardValues } from './random.js';

/** Cases of rmsNorm, over whole rows and over groups of a row. */
export function normCases(): OpCaseSpec[] {
  const spec = (name: string, subset: OpCaseSpec['subset'], build: () => OpCase): OpCaseSpec => {
    return { name: `rmsNorm: ${name}`, kind: 'rmsNorm', formats: [], subset, build };
  };
  return [
    spec('one lane each', 'startup', () => norm(101, 128, 1e-5, 4)),
    spec('fewer values than lanes', 'full', () => norm(102, 96, 1e-6, 6)),
    spec('uneven lanes', 'full', () => norm(103, 333, 1e-5, 5)),
    spec('a common width', 'full', () => norm(104, 576, 1e-5, 4)),
    spec('powers of two', 'full', () => normOfPowers(105)),
    spec('mantissas of the root', 'full', () => normOfRoots(106)),
    spec('the order of the sum', 'startup', () => normOfOrder([2740, 58007, 29785, 37895], 300, 1)),
    spec('groups of 32', 'startup', () => norm(107, 128, 1e-5, 6, 4)),
    spec('groups of 16', 'full', () => norm(108, 64, 1e-6, 6, 4)),
    spec('groups of 48', 'full', () => norm(109, 144, 1e-6, 6, 3)),
    spec('groups of 64', 'full', () => norm(110, 320, 1e-5, 4, 5)),
    spec('groups of 128', 'full', () => norm(111, 256, 1e-6, 4, 2)),
    spec('groups wider than the lanes', 'full', () => norm(112, 400, 1e-5, 4, 2)),
    spec('groups of one value', 'full', () => normOfSingles(113)),
    spec('groups of very different sizes', 'startup', () => normOfUnequals(114)),
    spec('the order of the sum in groups of 16', 'full', () => normOfOrder([336], 128, 8)),
    spec('the order of the sum in groups of 32', 'full', () => normOfOrder([771, 1253], 128, 4)),
    spec('the order of the sum in groups of 48', 'full', () => normOfOrder([906, 1510], 240, 5)),
    spec('the order of the sum in groups of 64', 'startup', () => normOfOrder([212, 832], 256, 4)),
    spec('the order of the sum in groups of 128', 'full', () => normOfOrder([3033], 384, 3)),
    spec('the order of the sum in groups of 160', 'full', () => normOfOrder([5550, 1979], 480, 3)),
  ];
}

/** Rows of growing size, then hard ones, then one of zeros. */
function norm(seed: number, width: number, epsilon: number, rowCount: number, groupCount = 1): OpCase {
  const random = createRandom(seed);
  const input = new Float32Array(rowCount * width);
  for (let row = 0; row < rowCount - 1; row++) {
    const hard = row >= rowCount / 2;
    const values = hard ? hardValues(random, width, 66) : bellValues(random, width, 3 * row - 4);
    input.set(dropTiny(values, -60), row * width);
  }
  const weight = Float32Array.from({ length: width / groupCount }, () => 1 + random.bell() / 4);
  weight[1] = pow2(20);
  weight[2] = pow2(-20);
  const clean = weight.map((w) => (w === 0 ? 1 : w));
  return { kind: 'rmsNorm', width, epsilon, ...groups(groupCount), weight: clean, input };
}

/** Absent where the row is one group, as plans have it. */
function groups(groupCount: number): { groupCount?: number } {
  return groupCount === 1 ? {} : { groupCount };
}

/** Every value is a group: its sign, less what epsilon takes. */
function normOfSingles(seed: number): OpCase {
  const random = createRandom(seed);
  const width = 24;
  const values = hardValues(random, 4 * width, 40);
  for (let i = 0; i < width; i++) values[i] = random.sign() * pow2(-(i + 1));
  const input = dropTiny(values, -60);
  return { kind: 'rmsNorm', width, epsilon: 1e-5, groupCount: width, weight: Float32Array.of(1.25), input };
}

/** Levels of a row's groups, in powers of two: near epsilon's root, zeros, far below and far above the others. */
const GROUP_LEVELS: readonly (number | undefined)[] = [-8, undefined, -30, 40, 0, -10];

/** A group that saw anything of another one, or of the whole row, would drown in it. */
function normOfUnequals(seed: number): OpCase {
  const random = createRandom(seed);
  const groupWidth = 32;
  const groupCount = GROUP_LEVELS.length;
  const input = new Float32Array(groupCount * groupCount * groupWidth);
  for (let row = 0; row < groupCount; row++) {
    for (let group = 0; group < groupCount; group++) {
      const level = GROUP_LEVELS[(row + group) % groupCount];
      if (level === undefined) continue;
      input.set(bellValues(random, groupWidth, level), (row * groupCount + group) * groupWidth);
    }
  }
  const weight = Float32Array.from({ length: groupWidth }, (_, i) => 1 + i / 64);
  return { kind: 'rmsNorm', width: groupCount * groupWidth, epsilon: 1e-5, groupCount, weight, input };
}

/** The ties, the flush and the cap of r12, and sums at both ends of rsqrt's two tables. */
function normOfPowers(seed: number): OpCase {
  const random = createRandom(seed);
  const width = 128;
  const edges = [0x3f800800, 0x3f801800, 0x3f8007ff, 0x587fffff, 0x58800000, 0x58800001, 0x5cffffff, 0x267fffff];
  const input = new Float32Array(10 * width);
  for (let row = 0; row < 10; row++) {
    for (let i = 0; i < width; i++) {
      const edge = fromBits(edges[random.below(row < 3 ? 3 : edges.length)]!) * random.sign();
      input[row * width + i] = row < 6 ? edge : random.sign() * pow2(random.below(4) + 7 * (row - 6) - 12);
    }
  }
  const weight = Float32Array.from({ length: width }, (_, i) => pow2((i % 5) - 2) * (i % 3 === 0 ? -1 : 1));
  return { kind: 'rmsNorm', width, epsilon: 1e-6, weight, input };
}

/**
 * Rows of four integers whose squares add up exactly, so that the root is taken of chosen numbers: random ones, and
 * those that lie midway between two integer roots, where its rounding decides.
 */
function normOfRoots(seed: number): OpCase {
  const random = createRandom(seed);
  const rows: number[][] = Array.from({ length: 120 }, () => {
    return Array.from({ length: 4 }, () => 256 + random.below(1728));
  });
  // value · 256 = root · (root + 1), for roots of 16 bits: an odd exponent for the first ones, an even one after.
  for (const root of [46592, 51455, 60160, 64511, 65280, 32768, 38655, 42240, 46079]) {
    rows.push(fourSquares((root * (root + 1)) / 256));
  }
  const weight = Float32Array.of(1, 1, 1, 1);
  return { kind: 'rmsNorm', width: 4, epsilon: pow2(-40), weight, input: Float32Array.from(rows.flat()) };
}

/**
 * Rows whose sum of squares lies next to a step of the root, in one of their groups at least, found by search. Nearly
 * always 16 bits hide the order in which a sum was taken; here 64 or 256 lanes, one, contiguous ones, folding upwards or
 * an exact sum all give other bits. In groups too, as far as they differ there: where a group's lanes begin changes no
 * sum, nor do lanes that stay empty, so that 32 lanes are enough for groups of up to 64.
 */
function normOfOrder(seeds: number[], width: number, groupCount: number): OpCase {
  const input = Float32Array.from(seeds.flatMap((seed) => [...bellValues(createRandom(seed), width)]));
  const weight = Float32Array.from({ length: width / groupCount }, (_, i) => (i % 2 === 0 ? 1 : -1) * (1 + i / 1024));
  return { kind: 'rmsNorm', width, epsilon: 1e-6, ...groups(groupCount), weight, input };
}

/** Four positive integers whose squares add up to a whole number. */
function fourSquares(sum: number): number[] {
  for (let a = Math.floor(Math.sqrt(sum / 2)); a > 0; a--) {
    for (let b = a; b > 0 && a * a + b * b < sum; b--) {
      const rest = sum - a * a - b * b;
      for (let c = Math.ceil(Math.sqrt(rest / 2)); c * c < rest; c++) {
        const d = Math.round(Math.sqrt(rest - c * c));
        if (d > 0 && d * d === rest - c * c) return [a, b, c, d];
      }
    }
  }
  assert(false, `${sum} is a sum of four squares`);
}
