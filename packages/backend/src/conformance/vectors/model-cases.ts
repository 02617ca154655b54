import { encodeWeight, pow2 } from '../../numerics/index.js';
import { formatsOf, type Plan, type WeightFormat, type WeightSpec } from '../../plan.js';
import type { WeightSource } from '../../weights.js';
import { buildPlan, type TinyModel } from './plan-builder.js';
import { createRandom } from './random.js';

/** The input of one whole-model vector. */
export interface ModelCaseSpec {
  readonly name: string;
  readonly formats: readonly WeightFormat[];
  readonly plan: Plan;
  readonly weights: WeightSource;
  readonly blockSize: number;
  /** (tokenCount): one sequence from position 0. */
  readonly tokens: Int32Array;
  /** (rowCount), ascending: the positions whose logits are recorded. */
  readonly rows: Int32Array;
}

/**
 * Four small models: shared K/V heads with biases in bf16, odd sizes with a head of their own in q8, what newer
 * families add in bf16, and what a file of four bits becomes.
 */
export function modelCases(): ModelCaseSpec[] {
  return [
    modelCase(
      'shared heads, biases, tied head',
      901,
      SHARED_HEADS,
      150,
      16,
      [0, 1, 15, 16, 31, 63, 64, 65, 127, 128, 149],
    ),
    modelCase('odd sizes, own head, mixed formats', 902, ODD_SIZES, 90, 32, [0, 1, 31, 32, 62, 63, 64, 70, 89]),
    modelCase(
      'head norms, windows, a layer without rope, norms after',
      903,
      HEAD_NORMS,
      130,
      16,
      [0, 1, 23, 24, 63, 64, 69, 70, 95, 128, 129],
    ),
    modelCase('four bits, a head of eight', 904, FOUR_BITS, 70, 16, [0, 1, 15, 16, 63, 64, 69]),
  ];
}

const SHARED_HEADS: TinyModel = {
  width: 64,
  layerCount: 2,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 16,
  feedForwardWidth: 176,
  vocabSize: 160,
  contextLength: 256,
  epsilon: 1e-5,
  biases: true,
  format: 'bf16',
  head: 'tied',
};

const ODD_SIZES: TinyModel = {
  width: 100,
  layerCount: 2,
  headCount: 3,
  kvHeadCount: 1,
  headSize: 48,
  feedForwardWidth: 211,
  vocabSize: 131,
  contextLength: 128,
  epsilon: 1e-6,
  biases: false,
  format: 'q8',
  head: 'bf16',
};

/** Windows of less and of more than a chunk, both shorter than the sequence. */
const HEAD_NORMS: TinyModel = {
  width: 48,
  layerCount: 3,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 16,
  feedForwardWidth: 80,
  vocabSize: 96,
  contextLength: 160,
  epsilon: 1e-6,
  biases: false,
  format: 'bf16',
  head: 'tied',
  headNorms: 'headsOfQueryAndKey',
  layerNorms: 'after',
  layers: [{ positions: 'rope', windowSize: 24 }, { positions: 'none' }, { positions: 'rope', windowSize: 70 }],
};

/** Biases, and hardly a size that whole blocks divide. */
const FOUR_BITS: TinyModel = {
  width: 72,
  layerCount: 2,
  headCount: 3,
  kvHeadCount: 1,
  headSize: 24,
  feedForwardWidth: 330,
  vocabSize: 101,
  contextLength: 96,
  epsilon: 1e-5,
  biases: true,
  format: 'q4',
  head: 'q8',
};

function modelCase(
  name: string,
  seed: number,
  model: TinyModel,
  tokenCount: number,
  blockSize: number,
  rows: number[],
): ModelCaseSpec {
  const random = createRandom(seed);
  const plan = buildPlan(model);
  return {
    name,
    formats: formatsOf(plan),
    plan,
    weights: seededWeights(plan, seed),
    blockSize,
    tokens: Int32Array.from({ length: tokenCount }, () => random.below(model.vocabSize)),
    rows: Int32Array.from(rows),
  };
}

/** Bell-shaped weights, each from its own seed, so that the order in which a backend reads them does not matter. */
export function seededWeights(plan: Plan, seed: number): WeightSource {
  return {
    async read(spec) {
      const index = plan.weights.findIndex((other) => other.name === spec.name);
      return encodeWeight(spec, seededValues(spec, seed * 1000 + index));
    },
  };
}

function seededValues(spec: WeightSpec, seed: number): Float32Array {
  const random = createRandom(seed);
  if (spec.kind === 'vector') {
    const centre = spec.role === 'norm' ? 1 : 0;
    return Float32Array.from({ length: spec.size }, () => centre + random.bell() * pow2(-3));
  }
  // A power of two near 1 / sqrt(columns); embeddings are about 1.
  const scale = spec.name === 'embedding' ? 1 : pow2(-Math.ceil((31 - Math.clz32(spec.columns)) / 2));
  return Float32Array.from({ length: spec.rows * spec.columns }, () => random.bell() * scale);
}
