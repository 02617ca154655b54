import { attentionScale, pow2 } from '../../numerics/index.js';
import type { OpCase } from '../../op-runner.js';
import type { OpCaseSpec } from './op-cases.js';
import { bellValues, createRandom, hardValues, type Random } from './random.js';

interface AttentionShape {
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly blockSize: number;
  readonly positionCount: number;
  readonly queryPositions: readonly number[];
}

type Fill = (random: Random, shape: AttentionShape) => { key: Float32Array; value: Float32Array; query: Float32Array };

/** Attention over one sequence: head sizes, shared heads, many blocks and chunks, and scores at every clamp and flush. */
export function attentionCases(): OpCaseSpec[] {
  const spec = (
    name: string,
    subset: OpCaseSpec['subset'],
    seed: number,
    shape: AttentionShape,
    fill: Fill,
  ): OpCaseSpec => ({
    name: `attention: ${name}`,
    kind: 'attention',
    formats: [],
    subset,
    build: () => attention(seed, shape, fill),
  });
  return [
    spec('heads of 32 over one block', 'startup', 701, shape(2, 1, 32, 16, [0, 1, 7, 15]), ordinary),
    spec('shared heads over two chunks', 'startup', 702, shape(4, 2, 32, 16, [0, 63, 64, 100]), ordinary),
    spec('heads of 16, padded', 'full', 703, shape(4, 2, 16, 16, [0, 15, 16, 62, 65, 129]), ordinary),
    spec('every position of a sequence', 'full', 712, shape(1, 1, 16, 16, [...Array(96).keys()]), ordinary),
    spec('heads of 48, padded', 'full', 704, shape(3, 1, 48, 32, [0, 31, 64, 90]), ordinary),
    spec('heads of 64 over hundreds of positions', 'full', 705, shape(3, 1, 64, 16, [1, 127, 128, 191, 332]), ordinary),
    spec('heads of 128', 'full', 706, shape(2, 2, 128, 64, [0, 63, 70, 149]), ordinary),
    spec('scores that swing', 'full', 707, shape(2, 1, 64, 16, [3, 64, 128, 199]), swinging),
    spec('hard values', 'full', 708, shape(2, 1, 64, 16, [0, 9, 40, 64, 127, 149]), hard),
    spec('scores that rise from chunk to chunk', 'full', 709, shape(1, 1, 64, 32, [63, 64, 200, 319, 499]), rising),
    spec('jumps around a shift of 64', 'full', 710, shape(1, 1, 32, 16, [64, 128, 200, 320, 450, 639]), jumping),
    spec('more jumps', 'full', 711, shape(1, 1, 64, 16, [100, 192, 300, 420, 575]), jumping),
    spec('shifts of exactly 62 to 65', 'full', 713, shape(8, 8, 32, 16, [63, 64, 66]), exactShifts),
    spec('scores whose blocks cancel', 'full', 715, shape(1, 1, 128, 16, [0, 20, 63, 70]), cancelling),
    spec('scores at both clamps', 'full', 714, shape(1, 1, 32, 16, [0, 5, 40, 63, 90, 95]), clamped),
  ];
}

function shape(
  headCount: number,
  kvHeadCount: number,
  headSize: number,
  blockSize: number,
  queryPositions: number[],
): AttentionShape {
  return {
    headCount,
    kvHeadCount,
    headSize,
    blockSize,
    positionCount: Math.max(...queryPositions) + 1,
    queryPositions,
  };
}

function attention(seed: number, spec: AttentionShape, fill: Fill): OpCase {
  const { headCount, kvHeadCount, headSize, blockSize } = spec;
  const queryPositions = Int32Array.from(spec.queryPositions);
  return {
    kind: 'attention',
    headCount,
    kvHeadCount,
    headSize,
    blockSize,
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

const ordinary: Fill = (random, spec) => ({
  key: bellValues(random, kvCount(spec)),
  value: bellValues(random, kvCount(spec)),
  query: bellValues(random, queryCount(spec)),
});

/** Keys of very different sizes, each fifth value block empty. */
const swinging: Fill = (random, spec) => {
  const key = bellValues(random, kvCount(spec)).map((x) => x * pow2(random.below(12) - 2));
  const value = bellValues(random, kvCount(spec)).map((x, i) => (Math.floor(i / 32) % 5 === 0 ? 0 : x));
  return { key, value, query: bellValues(random, queryCount(spec), 5) };
};

const hard: Fill = (random, spec) => ({
  key: hardValues(random, kvCount(spec), 30),
  value: hardValues(random, kvCount(spec), 25),
  query: hardValues(random, queryCount(spec), 20),
});

/** Every chunk scores higher than the one before, so that the running output shrinks until it is flushed. */
const rising: Fill = (random, spec) => {
  const width = spec.kvHeadCount * spec.headSize;
  const chunkOf = (i: number): number => Math.floor(i / width / 64);
  const key = bellValues(random, kvCount(spec), -7).map((x, i) => 3 * chunkOf(i) + x);
  const value = bellValues(random, kvCount(spec)).map((x, i) => (chunkOf(i) !== 0 && i % width < 16 ? 0 : x));
  return { key, value, query: new Float32Array(queryCount(spec)).fill(1) };
};

const JUMPS = [0, 1, 20, 35, 62, 63, 64, 65, 66, 75, 95, 100, -64, -70, -20, 27];

/** The level of the scores, in powers of two, jumps between chunks by amounts around the shift that drops a part. */
const jumping: Fill = (random, spec) => {
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
const exactShifts: Fill = (random, spec) => {
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
const clamped: Fill = (random, spec) => {
  const levels = Array.from({ length: spec.positionCount }, () => 16384 + random.below(120) - 60);
  const key = new Float32Array(kvCount(spec)).map((_, i) => {
    return levels[Math.floor(i / spec.headSize)]! * keyUnit(spec.headSize);
  });
  const query = new Float32Array(queryCount(spec)).map((_, i) => (Math.floor(i / spec.headSize) % 2 === 0 ? 1 : -1));
  return { key, value: bellValues(random, kvCount(spec)), query };
};

/** Blocks 0 and 2 of a head give large products that cancel, so that the order in which a score is summed shows. */
const cancelling: Fill = (random, spec) => {
  const { headSize } = spec;
  const key = bellValues(random, kvCount(spec));
  const query = bellValues(random, queryCount(spec));
  for (let i = 0; i < key.length; i++) if (i % headSize < 32) key[i] = key[i]! * pow2(15);
  for (let i = 0; i < key.length; i++) if (Math.floor((i % headSize) / 32) === 2) key[i] = -key[i - 64]!;
  for (let i = 0; i < query.length; i++) if (Math.floor((i % headSize) / 32) === 2) query[i] = query[i - 64]!;
  return { key, value: bellValues(random, kvCount(spec)), query };
};
