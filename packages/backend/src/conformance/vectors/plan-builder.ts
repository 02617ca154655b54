import type { BufferId, Op, Plan, WeightFormat, WeightId, WeightSpec } from '../../plan.js';
import { ropeSpec } from './element-cases.js';

/** A decoder, small enough to be made from a seed: of the Llama family, but for what is said otherwise. */
export interface TinyModel {
  readonly width: number;
  readonly layerCount: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly feedForwardWidth: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly epsilon: number;
  /** Biases on q, k and v. */
  readonly biases: boolean;
  readonly format: WeightFormat;
  /** `tied`: the embedding is the head as well; otherwise the format of the model's own head. */
  readonly head: 'tied' | WeightFormat;
  /** `headsOfQueryAndKey`: each head of q and k is normalized, before rope. Default `none`. */
  readonly headNorms?: 'none' | 'headsOfQueryAndKey';
  /** Whether the norms of a layer stand before its two parts or after them, before the sum. Default `before`. */
  readonly layerNorms?: 'before' | 'after';
  /** (layerCount); by default every layer has rope and attends to the whole context. */
  readonly layers?: readonly TinyLayer[];
}

export interface TinyLayer {
  readonly positions: 'rope' | 'none';
  readonly windowSize?: number;
}

/** The plan of a tiny model; an empty builder is filled from the embedding down to the logits. */
export function buildPlan(model: TinyModel): Plan {
  const builder = new PlanBuilder();
  const { width, headSize, headCount, kvHeadCount, feedForwardWidth, format } = model;
  const queryWidth = headCount * headSize;
  const kvWidth = kvHeadCount * headSize;
  const hidden = builder.buffer('hidden', width);
  const normed = builder.buffer('normed', width);
  const query = builder.buffer('query', queryWidth);
  const key = builder.buffer('key', kvWidth);
  const value = builder.buffer('value', kvWidth);
  const mixed = builder.buffer('mixed', queryWidth);
  const gate = builder.buffer('gate', feedForwardWidth);
  const up = builder.buffer('up', feedForwardWidth);
  const embedding = builder.matrix('embedding', model.vocabSize, width, format);
  builder.ops.push({ kind: 'embed', table: embedding, output: hidden });

  for (let layer = 0; layer < model.layerCount; layer++) {
    const input = model.layerNorms === 'after' ? hidden : normed;
    const project = (name: string, from: BufferId, to: BufferId, bias: boolean): void => {
      builder.linear(`${layer}.${name}`, from, to, format, bias);
    };
    /** The norm of a part, in the place that the model has it. */
    const norm = (place: 'before' | 'after', name: string): void => {
      if (place !== (model.layerNorms ?? 'before')) return;
      builder.norm(`${layer}.${name}`, place === 'before' ? hidden : normed, model.epsilon, normed);
    };
    norm('before', 'attention-norm');
    project('query', input, query, model.biases);
    project('key', input, key, model.biases);
    project('value', input, value, model.biases);
    addAttention(builder, model, layer, { query, key, value, mixed });
    project('output', mixed, normed, false);
    norm('after', 'attention-norm');
    builder.ops.push({ kind: 'add', left: hidden, right: normed, output: hidden });
    norm('before', 'feed-forward-norm');
    project('gate', input, gate, false);
    project('up', input, up, false);
    builder.ops.push({ kind: 'swiglu', gate, up, output: gate });
    project('down', gate, normed, false);
    norm('after', 'feed-forward-norm');
    builder.ops.push({ kind: 'add', left: hidden, right: normed, output: hidden });
  }

  const norm = builder.vector('final-norm', width, 'norm');
  const head = model.head === 'tied' ? embedding : builder.matrix('head', model.vocabSize, width, model.head);
  builder.ops.push({ kind: 'logits', input: hidden, norm, epsilon: model.epsilon, weight: head });
  return {
    architecture: 'golden',
    vocabSize: model.vocabSize,
    contextLength: model.contextLength,
    layerCount: model.layerCount,
    kvHeadCount,
    headSize,
    buffers: builder.buffers,
    weights: builder.weights,
    ropes: [ropeSpec(headSize)],
    ops: builder.ops,
  };
}

/** From projected q, k and v to the mixed values of all heads. */
function addAttention(
  builder: PlanBuilder,
  model: TinyModel,
  layer: number,
  buffers: Readonly<Record<'query' | 'key' | 'value' | 'mixed', BufferId>>,
): void {
  const { headCount, kvHeadCount, epsilon } = model;
  const { query, key, value, mixed } = buffers;
  const { positions, windowSize }: TinyLayer = model.layers?.[layer] ?? { positions: 'rope' };
  if (model.headNorms === 'headsOfQueryAndKey') {
    builder.norm(`${layer}.query-norm`, query, epsilon, query, headCount);
    builder.norm(`${layer}.key-norm`, key, epsilon, key, kvHeadCount);
  }
  if (positions === 'rope') {
    builder.ops.push({ kind: 'rope', buffer: query, headCount, rope: 0 });
    builder.ops.push({ kind: 'rope', buffer: key, headCount: kvHeadCount, rope: 0 });
  }
  builder.ops.push({ kind: 'kvWrite', layer, key, value });
  const window = windowSize === undefined ? {} : { windowSize };
  builder.ops.push({ kind: 'attention', layer, query, headCount, ...window, output: mixed });
}

class PlanBuilder {
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

  norm(name: string, input: BufferId, epsilon: number, output: BufferId, groupCount?: number): void {
    const weight = this.vector(name, this.buffers[input]!.width / (groupCount ?? 1), 'norm');
    const groups = groupCount === undefined ? {} : { groupCount };
    this.ops.push({ kind: 'rmsNorm', input, weight, epsilon, ...groups, output });
  }

  linear(name: string, input: BufferId, output: BufferId, format: WeightFormat, withBias: boolean): void {
    const rows = this.buffers[output]!.width;
    const weight = this.matrix(name, rows, this.buffers[input]!.width, format);
    const bias = withBias ? { bias: this.vector(`${name}-bias`, rows, 'bias') } : {};
    this.ops.push({ kind: 'linear', input, weight, ...bias, output });
  }
}
