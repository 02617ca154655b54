import type { BufferId, Op, Plan, WeightFormat, WeightId, WeightSpec } from '../../plan.js';
import { ropeSpec } from './element-cases.js';

/** A model of the Llama family, small enough to be made from a seed. */
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
    const project = (name: string, input: BufferId, output: BufferId, bias: boolean): void => {
      builder.linear(`${layer}.${name}`, input, output, format, bias);
    };
    builder.norm(`${layer}.attention-norm`, hidden, model.epsilon, normed);
    project('query', normed, query, model.biases);
    project('key', normed, key, model.biases);
    project('value', normed, value, model.biases);
    builder.ops.push({ kind: 'rope', buffer: query, headCount, rope: 0 });
    builder.ops.push({ kind: 'rope', buffer: key, headCount: kvHeadCount, rope: 0 });
    builder.ops.push({ kind: 'kvWrite', layer, key, value });
    builder.ops.push({ kind: 'attention', layer, query, headCount, output: mixed });
    project('output', mixed, normed, false);
    builder.ops.push({ kind: 'add', left: hidden, right: normed, output: hidden });
    builder.norm(`${layer}.feed-forward-norm`, hidden, model.epsilon, normed);
    project('gate', normed, gate, false);
    project('up', normed, up, false);
    builder.ops.push({ kind: 'swiglu', gate, up, output: gate });
    project('down', gate, normed, false);
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

  norm(name: string, input: BufferId, epsilon: number, output: BufferId): void {
    const weight = this.vector(name, this.buffers[input]!.width, 'norm');
    this.ops.push({ kind: 'rmsNorm', input, weight, epsilon, output });
  }

  linear(name: string, input: BufferId, output: BufferId, format: WeightFormat, withBias: boolean): void {
    const rows = this.buffers[output]!.width;
    const weight = this.matrix(name, rows, this.buffers[input]!.width, format);
    const bias = withBias ? { bias: this.vector(`${name}-bias`, rows, 'bias') } : {};
    this.ops.push({ kind: 'linear', input, weight, ...bias, output });
  }
}
