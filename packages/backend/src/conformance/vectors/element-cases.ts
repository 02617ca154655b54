import { assert } from '../../errors.js';
import { bitsOf, fromBits, pow2, ropeTables } from '../../numerics/index.js';
import type { OpCase } from '../../op-runner.js';
import type { RopeSpec } from '../../plan.js';
import type { OpCaseSpec } from './op-cases.js';
import { bellValues, createRandom, dropTiny, hardValues, type Random } from './random.js';

/** Cases of the operations without a matrix, but attention. */
export function elementCases(): OpCaseSpec[] {
  return [...normCases(), ...ropeCases(), ...swigluCases(), ...addCases()];
}

function normCases(): OpCaseSpec[] {
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
    spec('the order of the sum', 'startup', () => normOfOrder([2740, 58007, 29785, 37895])),
  ];
}

/** Rows of growing size, then hard ones, then one of zeros. */
function norm(seed: number, width: number, epsilon: number, rowCount: number): OpCase {
  const random = createRandom(seed);
  const input = new Float32Array(rowCount * width);
  for (let row = 0; row < rowCount - 1; row++) {
    const hard = row >= rowCount / 2;
    const values = hard ? hardValues(random, width, 66) : bellValues(random, width, 3 * row - 4);
    input.set(dropTiny(values, -60), row * width);
  }
  const weight = Float32Array.from({ length: width }, () => 1 + random.bell() / 4);
  weight[1] = pow2(20);
  weight[2] = pow2(-20);
  return { kind: 'rmsNorm', width, epsilon, weight: weight.map((w) => (w === 0 ? 1 : w)), input };
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
 * Rows whose sum of squares lies next to a step of the root, found by search. Nearly always 16 bits hide the order in
 * which a sum was taken; here 64 or 256 lanes, one, contiguous ones, folding upwards or an exact sum all give other bits.
 */
function normOfOrder(seeds: number[]): OpCase {
  const width = 300;
  const input = Float32Array.from(seeds.flatMap((seed) => [...bellValues(createRandom(seed), width)]));
  const weight = Float32Array.from({ length: width }, (_, i) => (i % 2 === 0 ? 1 : -1) * (1 + i / 1024));
  return { kind: 'rmsNorm', width, epsilon: 1e-6, weight, input };
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

function ropeCases(): OpCaseSpec[] {
  const spec = (name: string, subset: OpCaseSpec['subset'], build: () => OpCase): OpCaseSpec => {
    return { name: `rope: ${name}`, kind: 'rope', formats: [], subset, build };
  };
  return [
    spec('heads of 32', 'startup', () => rotation(201, 2, 32, 1, [0, 1, 5, 63, 250])),
    spec('heads of 16', 'full', () => rotation(202, 3, 16, 1, [0, 2, 3, 17, 400, 1023])),
    spec('heads of 64', 'full', () => rotation(203, 3, 64, 1, [0, 1, 2, 64, 700])),
    spec('heads of 128', 'full', () => rotation(204, 2, 128, 1, [3, 900, 2047])),
    spec('pairs that cancel', 'full', () => cancellingPairs(206)),
    spec('an attention factor', 'full', () => rotation(205, 2, 32, 1.2079441541679836, [0, 7, 31, 500])),
  ];
}

/** Frequencies 1, 3/4, 9/16, …: basic arithmetic alone, so that no engine's own functions are asked. */
export function ropeSpec(headSize: number, attentionFactor = 1): RopeSpec {
  const inverseFrequencies: number[] = [];
  for (let i = 0, frequency = 1; i < headSize / 2; i++, frequency *= 0.75) inverseFrequencies.push(frequency);
  return { inverseFrequencies, attentionFactor };
}

function rotation(seed: number, headCount: number, headSize: number, factor: number, positions: number[]): OpCase {
  const random = createRandom(seed);
  const count = positions.length * headCount * headSize;
  const hard = hardValues(random, count, 60);
  const input = bellValues(random, count, 1).map((x, i) => (Math.floor(i / headSize) % 2 === 0 ? x : hard[i]!));
  for (let head = 0; head < count; head += headSize) keepPairs(input, head, headSize);
  return {
    kind: 'rope',
    headCount,
    headSize,
    rope: ropeSpec(headSize, factor),
    positions: Int32Array.from(positions),
    input,
  };
}

/** The high parts of a pair are its own sine and cosine, so that one output is made of the low parts alone. */
function cancellingPairs(seed: number): OpCase {
  const random = createRandom(seed);
  const headSize = 32;
  const rope = ropeSpec(headSize);
  const positions = Int32Array.of(1, 5, 9, 200);
  const { cosine, sine } = ropeTables(rope, 201);
  const withLowBits = (high: number): number => fromBits(bitsOf(high) | (1 + random.below(4095)));
  const input = new Float32Array(positions.length * headSize);
  for (const [row, position] of positions.entries()) {
    for (let i = 0; i < headSize / 2; i++) {
      const entry = (position * headSize) / 2 + i;
      input[row * headSize + i] = withLowBits(sine[entry]!);
      input[row * headSize + headSize / 2 + i] = withLowBits(cosine[entry]!);
    }
  }
  return { kind: 'rope', headCount: 1, headSize, rope, positions, input };
}

/** A pair that flushes to zero as a whole gives a zero whose sign is not defined: one of it is made 1. */
function keepPairs(input: Float32Array, head: number, headSize: number): void {
  const half = headSize / 2;
  for (let i = head; i < head + half; i++) {
    if (Math.abs(input[i]!) < pow2(-49) && Math.abs(input[i + half]!) < pow2(-49)) input[i + half] = 1;
  }
}

function swigluCases(): OpCaseSpec[] {
  const spec = (name: string, subset: OpCaseSpec['subset'], build: () => OpCase): OpCaseSpec => {
    return { name: `swiglu: ${name}`, kind: 'swiglu', formats: [], subset, build };
  };
  return [
    spec('a sweep of gates', 'startup', () => gateSweep(301)),
    spec('hard values', 'full', () => gates(302)),
    spec('saturation', 'full', () => saturatedGates(303)),
  ];
}

function gateSweep(seed: number): OpCase {
  const random = createRandom(seed);
  const gate = Float32Array.from({ length: 1024 }, (_, i) => (i - 512) / 13 + random.below(4096) * pow2(-20));
  return gated(random, gate, bellValues(random, 1024));
}

function gates(seed: number): OpCase {
  const random = createRandom(seed);
  return gated(random, hardValues(random, 3072, 59), hardValues(random, 3072, 59));
}

/** Around the gates where the exponent is clamped (44.36) and where the power is shifted away (11.1). */
function saturatedGates(seed: number): OpCase {
  const random = createRandom(seed);
  const around = [44.361419677734375, 44.36, 45, 11.0903, 11.78, 100, pow2(59), 0.7];
  const gate = Float32Array.from({ length: 512 }, () => {
    return random.sign() * around[random.below(around.length)]! * (1 + random.below(64) * pow2(-22));
  });
  return gated(random, gate, bellValues(random, 512));
}

/** Keeps zeros out of `up` and the sign of zero out of the results: it is not defined there. */
function gated(random: Random, gate: Float32Array, up: Float32Array): OpCase {
  const cleanGate = dropTiny(gate, -40);
  const cleanUp = up.map((x, i) => {
    const nonZero = Math.abs(x) < pow2(-40) ? random.sign() : x;
    return cleanGate[i] === 0 ? Math.abs(nonZero) : nonZero;
  });
  return { kind: 'swiglu', gate: cleanGate, up: cleanUp };
}

function addCases(): OpCaseSpec[] {
  const build = (): OpCase => {
    const random = createRandom(401);
    const left = dropTiny(hardValues(random, 768, 66), -90);
    const right = dropTiny(hardValues(random, 768, 66), -90);
    for (let i = 0; i < 64; i++) right[i] = left[i] === 0 ? 0 : -left[i]! * (i % 2 === 0 ? 1 : 1 + pow2(-23));
    return { kind: 'add', left, right };
  };
  return [{ name: 'add: hard values', kind: 'add', formats: [], subset: 'startup', build }];
}
