import { attentionScale, pow2 } from '../../numerics/index.js';
import type { OpCase } from '../../op-runner.js';
import { bellValues, createRandom, hardValues, type Random } from './random.js';

/** Sizes of an attention case: one sequence and the rows that attend to it. */
export interface AttentionShape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly blockSize: number;
  readonly windowSize?: number;
  readonly positionCount: number;
  readonly queryPositions: readonly number[];
}

/** Makes the values of a case. */
export type Fill = (
  random: Random,
  shape: AttentionShape,
) => { key: Float32Array; value: Float32Array; query: Float32Array };

/** The sequence ends with the last row's position. */
export function shape(
  headCount: number,
  kvHeadCount: number,
  headSize: number,
  blockSize: number,
  queryPositions: number[],
  windowSize?: number,
): AttentionShape {
  return {
    headCount,
    kvHeadCount,
    headSize,
    blockSize,
    positionCount: Math.max(...queryPositions) + 1,
    queryPositions,
    ...(windowSize !== undefined && { windowSize }),
  };
}

/** The case of a shape, filled from a seed. */
export function attention(seed: number, spec: AttentionShape, fill: Fill): OpCase {
  const { headCount, kvHeadCount, headSize, blockSize, windowSize } = spec;
  const queryPositions = Int32Array.from(spec.queryPositions);
  return {
    kind: 'attention',
    headCount,
    kvHeadCount,
    headSize,
    blockSize,
    ...(windowSize !== undefined && { windowSize }),
    queryPositions,
    ...fill(createRandom(seed), spec),
  };
}

function kvCount(spec: AttentionShape): number {
  return spec.positionCount * spec.kvHeadCount * spec.headSize;
}

function queryCount(spec: AttentionShape): number {
  return spec.queryPositions.length * spec.headCount * spec.headSize;
}

/** Bell-shaped values of deviation 1. */
export const ordinary: Fill = (random, spec) => ({
  key: bellValues(random, kvCount(spec)),
  value: bellValues(random, kvCount(spec)),
  query: bellValues(random, queryCount(spec)),
});

/** Keys of very different sizes, each fifth value block empty. */
export const swinging: Fill = (random, spec) => {
  const key = bellValues(random, kvCount(spec)).map((x) => x * pow2(random.below(12) - 2));
  const value = bellValues(random, kvCount(spec)).map((x, i) => (Math.floor(i / 32) % 5 === 0 ? 0 : x));
  return { key, value, query: bellValues(random, queryCount(spec), 5) };
};

/** What quantizers find hard, in keys, values and queries. */
export const hard: Fill = (random, spec) => ({
  key: hardValues(random, kvCount(spec), 30),
  value: hardValues(random, kvCount(spec), 25),
  query: hardValues(random, queryCount(spec), 20),
});

/** Every chunk scores higher than the one before, so that the running output shrinks until it is flushed. */
export const rising: Fill = (random, spec) => {
  const width = spec.kvHeadCount * spec.headSize;
  const chunkOf = (i: number): number => Math.floor(i / width / 64);
  const key = bellValues(random, kvCount(spec), -7).map((x, i) => 3 * chunkOf(i) + x);
  const value = bellValues(random, kvCount(spec)).map((x, i) => (chunkOf(i) !== 0 && i % width < 16 ? 0 : x));
  return { key, value, query: new Float32Array(queryCount(spec)).fill(1) };
};

const JUMPS = [0, 1, 20, 35, 62, 63, 64, 65, 66, 75, 95, 100, -64, -70, -20, 27];

/** The level of the scores, in powers of two, jumps between chunks by amounts around the shift that drops a part. */
export const jumping: Fill = (random, spec) => {
  const width = spec.kvHeadCount * spec.headSize;
  const key = new Float32Array(kvCount(spec));
  const value = bellValues(random, kvCount(spec));
  const unit = keyUnit(spec.headSize);
  let level = 0;
  for (let position = 0; position < spec.positionCount; position++) {
    if (position % 64 === 0) level += JUMPS[random.below(JUMPS.length)]!;
    for (let i = 0; i < width; i++) {
      const at = position * width + i;
      key[at] = level * unit * (i === 0 ? 1 + random.below(2048) * pow2(-13) - 0.125 : 1);
      if (position >= 64 && i % 8 !== 0) value[at] = 0;
      else value[at] = value[at]! * pow2(random.below(20) - 10);
    }
  }
  return { key, value, query: new Float32Array(queryCount(spec)).fill(1) };
};

/** Value of each of a head's keys that adds one power of two to the score under a query of ones. */
function keyUnit(headSize: number): number {
  return 65536 / attentionScale(headSize) / headSize;
}

/** The second chunk is 62 to 65 powers of two above the first one, or below; columns differ in which chunk has values. */
export const exactShifts: Fill = (random, spec) => {
  const width = spec.kvHeadCount * spec.headSize;
  const value = bellValues(random, kvCount(spec), 3);
  const key = value.map((_, i) => {
    const head = Math.floor((i % width) / spec.headSize);
    const jump = (62 + (head % 4)) * (head < 4 ? 1 : -1);
    return ((i < 64 * width ? 0 : jump) + 0.5) * keyUnit(spec.headSize);
  });
  for (let i = 0; i < value.length; i++) {
    const first = i < 64 * width;
    if (first ? i % 8 < 3 : i % 8 > 4) value[i] = 0;
  }
  return { key, value, query: new Float32Array(queryCount(spec)).fill(1) };
};

/** Scores within 60 powers of two of 2^±16384, where T is clamped. */
export const clamped: Fill = (random, spec) => {
  const levels = Array.from({ length: spec.positionCount }, () => 16384 + random.below(120) - 60);
  const key = new Float32Array(kvCount(spec)).map((_, i) => {
    return levels[Math.floor(i / spec.headSize)]! * keyUnit(spec.headSize);
  });
  const query = new Float32Array(queryCount(spec)).map((_, i) => (Math.floor(i / spec.headSize) % 2 === 0 ? 1 : -1));
  return { key, value: bellValues(random, kvCount(spec)), query };
};

/** Scores at or just above the lowest that there is: a position that is masked by giving it that score still counts. */
export const lowest: Fill = (random, spec) => {
  const level = (): number => -16384 - random.below(64) + 8;
  const levels = Array.from({ length: spec.positionCount }, level);
  const width = spec.kvHeadCount * spec.headSize;
  const key = new Float32Array(kvCount(spec)).map((_, i) => levels[Math.floor(i / width)]! * keyUnit(spec.headSize));
  return { key, value: bellValues(random, kvCount(spec)), query: new Float32Array(queryCount(spec)).fill(1) };
};

/** Blocks 0 and 2 of a head give large products that cancel, so that the order in which a score is summed shows. */
export const cancelling: Fill = (random, spec) => {
  const { headSize } = spec;
  const key = bellValues(random, kvCount(spec));
  const query = bellValues(random, queryCount(spec));
  for (let i = 0; i < key.length; i++) if (i % headSize < 32) key[i] = key[i]! * pow2(15);
  for (let i = 0; i < key.length; i++) if (Math.floor((i % headSize) / 32) === 2) key[i] = -key[i - 64]!;
  for (let i = 0; i < query.length; i++) if (Math.floor((i % headSize) / 32) === 2) query[i] = query[i - 64]!;
  return { key, value: bellValues(random, kvCount(spec)), query };
};

/**
 * Before the window of the first row, keys that would win by some powers of two, and values far above the others: a row
 * that lets one of them into a maximum, a sum or a shift shows it, and so does one that reads it with a weight of zero.
 */
export const loudBefore: Fill = (random, spec) => {
  const width = spec.kvHeadCount * spec.headSize;
  const first = Math.min(...spec.queryPositions) + 1 - (spec.windowSize ?? 1);
  const isLoud = (i: number): boolean => i < first * width;
  const key = bellValues(random, kvCount(spec)).map((x, i) => (isLoud(i) ? Math.abs(x) + 1 : -x * pow2(-3)));
  const value = bellValues(random, kvCount(spec)).map((x, i) => (isLoud(i) ? x * pow2(9) : x));
  return { key, value, query: bellValues(random, queryCount(spec)).map((x) => Math.abs(x) / 4 + pow2(-6)) };
};
