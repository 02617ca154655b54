import { encodeWeight, pow2 } from '../numerics/index.js';
import type { BufferId, Op, Plan, WeightFormat, WeightId, WeightSpec } from '../plan.js';
import type { WeightSource } from '../weights.js';
import { random } from './random.js';

/** A small model to run a backend with. */
export interface ConformanceModel {
  readonly name: string;
  readonly plan: Plan;
  readonly weights: WeightSource;
}

export interface ModelShape {
  readonly name: string;
  readonly seed: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly layerCount: number;
  readonly hiddenSize: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly feedForwardSize: number;
  readonly hasBiases: boolean;
  /** `headsOfQueryAndKey`: each head of q and k is normalized, before rope. Default `none`. */
  readonly headNorms?: 'none' | 'headsOfQueryAndKey';
  /** By layer, in positions; a layer that is not there attends to the whole context. */
  readonly windowSizes?: readonly number[];
  readonly head: 'tied' | 'own';
  readonly attentionFormat: WeightFormat;
  readonly feedForwardFormat: WeightFormat;
  readonly headFormat: WeightFormat;
  /** Rows r and r + tiePeriod of an own head are equal, so every logit is shared by several tokens. */
  readonly tiePeriod?: number;
}

/** Heads that share K/V, biases, the embedding as head. */
const grouped: ModelShape = {
  name: 'grouped',
  seed: 11,
  vocabSize: 96,
  contextLength: 160,
  layerCount: 2,
  hiddenSize: 64,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 16,
  feedForwardSize: 96,
  hasBiases: true,
  head: 'tied',
  attentionFormat: 'bf16',
  feedForwardFormat: 'bf16',
  headFormat: 'bf16',
};

/**
 * Hardly a size is a multiple of 16, a head of its own, one K/V head, norms of heads, a window in the first of two
 * layers, q8 but for the feed-forward part.
 */
const odd: ModelShape = {
  name: 'odd',
  seed: 12,
  vocabSize: 131,
  contextLength: 147,
  layerCount: 2,
  hiddenSize: 40,
  headCount: 3,
  kvHeadCount: 1,
  headSize: 24,
  feedForwardSize: 100,
  hasBiases: false,
  headNorms: 'headsOfQueryAndKey',
  windowSizes: [21],
  head: 'own',
  attentionFormat: 'q8',
  feedForwardFormat: 'bf16',
  headFormat: 'q8',
};

/** One layer in four bits, its tables in eight, as a quantized file has them. */
const quantized: ModelShape = {
  name: 'quantized',
  seed: 16,
  vocabSize: 85,
  contextLength: 130,
  layerCount: 1,
  hiddenSize: 72,
  headCount: 2,
  kvHeadCount: 1,
  headSize: 32,
  feedForwardSize: 104,
  hasBiases: false,
  head: 'own',
  attentionFormat: 'q4',
  feedForwardFormat: 'q4',
  headFormat: 'q8',
};

export function conformanceModels(): ConformanceModel[] {
  return [buildModel(grouped), buildModel(odd), buildModel(quantized)];
}

/**
 * A vocabulary of 96 with ties everywhere: tokens t, t + tiePeriod, t + 2 tiePeriod, … have equal logits. With a period
 * of 48 or less each logit is shared, so the arg-max is below it and the runner-up as large.
 */
export function tiedModel(tiePeriod = 32): ConformanceModel {
  return buildModel({ ...grouped, name: `ties ${tiePeriod} apart`, seed: 13, head: 'own', tiePeriod });
}

/** A model with as many tokens as that. */
export function vocabularyModel(vocabSize: number): ConformanceModel {
  return buildModel({ ...grouped, name: `${vocabSize} tokens`, seed: 14, head: 'own', vocabSize });
}

/** A model whose layers all have a window, of so many positions. */
export function windowedModel(windowSizes: readonly [number, number]): ConformanceModel {
  return buildModel({ ...grouped, name: `windows of ${windowSizes.join(' and ')}`, seed: 15, windowSizes });
}

/** A decoder, of the Llama family but for head norms and windows, whose weights are integers from a seed, scaled by powers of two. */
export function buildModel(shape: ModelShape): ConformanceModel {
  return { name: shape.name, plan: buildPlan(shape), weights: seededWeights(shape.seed, shape.tiePeriod) };
}

function buildPlan(shape: ModelShape): Plan {
  const parts = new PlanParts();
  const { vocabSize, hiddenSize, headCount, kvHeadCount, headSize, feedForwardSize } = shape;
  const buffers = {
    hidden: parts.buffer('hidden', hiddenSize),
    normed: parts.buffer('normed', hiddenSize),
    query: parts.buffer('query', headCount * headSize),
    key: parts.buffer('key', kvHeadCount * headSize),
    value: parts.buffer('value', kvHeadCount * headSize),
    attended: parts.buffer('attended', headCount * headSize),
    projected: parts.buffer('projected', hiddenSize),
    gate: parts.buffer('gate', feedForwardSize),
    up: parts.buffer('up', feedForwardSize),
  };
  const embedding = parts.matrix('embedding', vocabSize, hiddenSize, shape.headFormat);
  parts.ops.push({ kind: 'embed', table: embedding, output: buffers.hidden });
  for (let layer = 0; layer < shape.layerCount; layer++) addLayer(parts, shape, buffers, layer);
  const norm = parts.vector('norm', hiddenSize, 'norm');
  const head = shape.head === 'tied' ? embedding : parts.matrix('head', vocabSize, hiddenSize, shape.headFormat);
  const bias = shape.head === 'own' && !shape.tiePeriod ? parts.vector('head.bias', vocabSize, 'bias') : undefined;
  parts.ops.push({ kind: 'logits', input: buffers.hidden, norm, epsilon: EPSILON, weight: head, ...optional(bias) });
  return {
    architecture: 'llama',
    vocabSize,
    contextLength: shape.contextLength,
    layerCount: shape.layerCount,
    kvHeadCount,
    headSize,
    buffers: parts.buffers,
    weights: parts.weights,
    ropes: [{ inverseFrequencies: frequencies(headSize), attentionFactor: 1 }],
    ops: parts.ops,
  };
}

const EPSILON = 1e-5;

type LayerBuffers = Readonly<
  Record<'hidden' | 'normed' | 'query' | 'key' | 'value' | 'attended' | 'projected' | 'gate' | 'up', BufferId>
>;

function addLayer(parts: PlanParts, shape: ModelShape, buffers: LayerBuffers, layer: number): void {
  const { hiddenSize, headCount, kvHeadCount, headSize, feedForwardSize, attentionFormat, feedForwardFormat } = shape;
  const { hidden, normed, query, key, value, attended, projected, gate, up } = buffers;
  const name = (part: string): string => `layers.${layer}.${part}`;
  const linear = (
    part: string,
    format: WeightFormat,
    input: BufferId,
    output: BufferId,
    rows: number,
    columns: number,
  ) => {
    const weight = parts.matrix(name(part), rows, columns, format);
    const bias = shape.hasBiases ? parts.vector(name(`${part}.bias`), rows, 'bias') : undefined;
    parts.ops.push({ kind: 'linear', input, weight, output, ...optional(bias) });
  };
  const norm = (part: string, input: BufferId, output: BufferId, groupCount = 1): void => {
    const weight = parts.vector(name(part), parts.buffers[input]!.width / groupCount, 'norm');
    const groups = groupCount === 1 ? {} : { groupCount };
    parts.ops.push({ kind: 'rmsNorm', input, weight, epsilon: EPSILON, ...groups, output });
  };
  norm('attention.norm', hidden, normed);
  linear('query', attentionFormat, normed, query, headCount * headSize, hiddenSize);
  linear('key', attentionFormat, normed, key, kvHeadCount * headSize, hiddenSize);
  linear('value', attentionFormat, normed, value, kvHeadCount * headSize, hiddenSize);
  if (shape.headNorms === 'headsOfQueryAndKey') {
    norm('query.norm', query, query, headCount);
    norm('key.norm', key, key, kvHeadCount);
  }
  const windowSize = shape.windowSizes?.[layer];
  parts.ops.push(
    { kind: 'rope', buffer: query, headCount, rope: 0 },
    { kind: 'rope', buffer: key, headCount: kvHeadCount, rope: 0 },
    { kind: 'kvWrite', layer, key, value },
    { kind: 'attention', layer, query, headCount, ...(windowSize && { windowSize }), output: attended },
  );
  linear('output', attentionFormat, attended, projected, hiddenSize, headCount * headSize);
  parts.ops.push({ kind: 'add', left: hidden, right: projected, output: hidden });
  norm('feedForward.norm', hidden, normed);
  linear('gate', feedForwardFormat, normed, gate, feedForwardSize, hiddenSize);
  linear('up', feedForwardFormat, normed, up, feedForwardSize, hiddenSize);
  parts.ops.push({ kind: 'swiglu', gate, up, output: gate });
  linear('down', feedForwardFormat, gate, projected, hiddenSize, feedForwardSize);
  parts.ops.push({ kind: 'add', left: hidden, right: projected, output: hidden });
}

class PlanParts {
  readonly buffers: { name: string; width: number }[] = [];
  readonly weights: WeightSpec[] = [];
  readonly ops: Op[] = [];

  buffer(name: string, width: number): BufferId {
    return this.buffers.push({ name, width }) - 1;
  }

  matrix(name: string, rows: number, columns: number, format: WeightFormat): WeightId {
    return this.weights.push({ kind: 'matrix', name, rows, columns, format }) - 1;
  }

  vector(name: string, size: number, role: 'norm' | 'bias'): WeightId {
    return this.weights.push({ kind: 'vector', name, size, role }) - 1;
  }
}

function optional(bias: WeightId | undefined): { bias?: WeightId } {
  return bias === undefined ? {} : { bias };
}

/** Powers of two from 1 down, so that no engine's Math.pow comes in. */
function frequencies(headSize: number): number[] {
  const pairCount = headSize / 2;
  return Array.from({ length: pairCount }, (_, pair) => pow2(-Math.floor((pair * 10) / pairCount)));
}

function seededWeights(seed: number, tiePeriod: number | undefined): WeightSource {
  return {
    async read(spec) {
      const values = seededValues(spec, seed);
      if (spec.kind === 'matrix' && spec.name === 'head' && tiePeriod) {
        for (let row = tiePeriod; row < spec.rows; row++) {
          values.copyWithin(row * spec.columns, (row - tiePeriod) * spec.columns, (row - tiePeriod + 1) * spec.columns);
        }
      }
      return encodeWeight(spec, values);
    },
  };
}

/** Integers of 7 bits and sign times a power of two; matrices get a spread of about 1 / sqrt(columns), heads and embeddings more. */
function seededValues(spec: WeightSpec, seed: number): Float32Array {
  const draw = random(seed + [...spec.name].reduce((sum, char) => Math.imul(sum, 31) + char.charCodeAt(0), 7));
  const integer = (): number => draw.between(-127, 127);
  if (spec.kind === 'vector') {
    const isNorm = spec.role === 'norm';
    return Float32Array.from({ length: spec.size }, () => (isNorm ? 1 + integer() / 512 : integer() / 1024));
  }
  const isTable = spec.name === 'embedding' || spec.name === 'head';
  const scale = isTable ? pow2(-8) : pow2(-6 - Math.ceil((32 - Math.clz32(spec.columns - 1)) / 2));
  return Float32Array.from({ length: spec.rows * spec.columns }, () => integer() * scale);
}
