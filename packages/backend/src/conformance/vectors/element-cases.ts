import { bitsOf, fromBits, pow2, ropeTables } from '../../numerics/index.js';
import type { OpCase } from '../../op-runner.js';
import type { RopeSpec } from '../../plan.js';
import type { OpCaseSpec } from './op-cases.js';
import { bellValues, createRandom, dropTiny, hardValues, type Random } from './random.js';

/** Cases of the operations without a matrix, but norms and attention. */
export function elementCases(): OpCaseSpec[] {
  return [...ropeCases(), ...swigluCases(), ...addCases()];
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
