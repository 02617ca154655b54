import type { BufferId, Plan, RopeId, WeightFormat, WeightId } from '@stet/backend';
import { badConfig } from '../config/config-error.js';
import type { LlamaConfig } from '../config/model-config.js';
import { PlanBuilder } from './plan-builder.js';
import { ropeSpec } from './rope.js';

/** Angles of the rope series must stay below it. */
const MAX_ANGLE = 2 ** 20;

/**
 * The plan of a model of the Llama family: a pure function of its config. Weights have the names of the checkpoint.
 * `format` is that of all matrices. Throws `STET_ERR_BAD_CONFIG` or `STET_ERR_BAD_PLAN`.
 */
export function llamaPlan(config: LlamaConfig, format: WeightFormat): Plan {
  const builder = new PlanBuilder(format);
  const rope = ropeSpec(config.rope, config.headSize);
  if (config.contextLength * Math.max(...rope.inverseFrequencies) > MAX_ANGLE) {
    badConfig(`positions up to ${config.contextLength} turn further than the rope series reach`);
  }
  const context: LayerContext = { config, builder, buffers: declareBuffers(config, builder), rope: builder.rope(rope) };
  const table = builder.matrix('model.embed_tokens.weight', config.vocabSize, config.hiddenSize);
  builder.op({ kind: 'embed', table, output: context.buffers.hidden });
  for (let layer = 0; layer < config.layerCount; layer++) {
    attentionBlock(context, layer);
    feedForwardBlock(context, layer);
  }
  builder.op({
    kind: 'logits',
    input: context.buffers.hidden,
    norm: builder.vector('model.norm.weight', config.hiddenSize, 'norm'),
    epsilon: config.normEpsilon,
    weight: config.head === 'tied' ? table : builder.matrix('lm_head.weight', config.vocabSize, config.hiddenSize),
  });
  return builder.build({
    architecture: config.architecture === 'LlamaForCausalLM' ? 'llama' : 'mistral',
    vocabSize: config.vocabSize,
    contextLength: config.contextLength,
    layerCount: config.layerCount,
    kvHeadCount: config.kvHeadCount,
    headSize: config.headSize,
  });
}

interface Buffers {
  readonly hidden: BufferId;
  readonly normed: BufferId;
  readonly query: BufferId;
  readonly key: BufferId;
  readonly value: BufferId;
  readonly attended: BufferId;
  readonly gate: BufferId;
  readonly up: BufferId;
  readonly activated: BufferId;
  /** What a block adds to the hidden state. */
  readonly residual: BufferId;
}

interface LayerContext {
  readonly config: LlamaConfig;
  readonly builder: PlanBuilder;
  readonly buffers: Buffers;
  readonly rope: RopeId;
}

function declareBuffers(config: LlamaConfig, builder: PlanBuilder): Buffers {
  const queryWidth = config.headCount * config.headSize;
  const keyWidth = config.kvHeadCount * config.headSize;
  return {
    hidden: builder.buffer('hidden', config.hiddenSize),
    normed: builder.buffer('normed', config.hiddenSize),
    query: builder.buffer('query', queryWidth),
    key: builder.buffer('key', keyWidth),
    value: builder.buffer('value', keyWidth),
    attended: builder.buffer('attended', queryWidth),
    gate: builder.buffer('gate', config.intermediateSize),
    up: builder.buffer('up', config.intermediateSize),
    activated: builder.buffer('activated', config.intermediateSize),
    residual: builder.buffer('residual', config.hiddenSize),
  };
}

function attentionBlock({ config, builder, buffers, rope }: LayerContext, layer: number): void {
  const { headCount, kvHeadCount, headSize, hiddenSize } = config;
  const { hidden, normed, query, key, value, attended, residual } = buffers;
  const prefix = `model.layers.${layer}`;
  const bias = config.attentionBias;
  norm({ config, builder }, `${prefix}.input_layernorm.weight`, hidden, normed);
  linear(builder, `${prefix}.self_attn.q_proj`, [headCount * headSize, hiddenSize], bias, normed, query);
  linear(builder, `${prefix}.self_attn.k_proj`, [kvHeadCount * headSize, hiddenSize], bias, normed, key);
  linear(builder, `${prefix}.self_attn.v_proj`, [kvHeadCount * headSize, hiddenSize], bias, normed, value);
  builder.op({ kind: 'rope', buffer: query, headCount, rope });
  builder.op({ kind: 'rope', buffer: key, headCount: kvHeadCount, rope });
  builder.op({ kind: 'kvWrite', layer, key, value });
  builder.op({ kind: 'attention', layer, query, headCount, output: attended });
  linear(builder, `${prefix}.self_attn.o_proj`, [hiddenSize, headCount * headSize], bias, attended, residual);
  builder.op({ kind: 'add', left: hidden, right: residual, output: hidden });
}

function feedForwardBlock({ config, builder, buffers }: LayerContext, layer: number): void {
  const { hiddenSize, intermediateSize, mlpBias } = config;
  const { hidden, normed, gate, up, activated, residual } = buffers;
  const prefix = `model.layers.${layer}`;
  norm({ config, builder }, `${prefix}.post_attention_layernorm.weight`, hidden, normed);
  linear(builder, `${prefix}.mlp.gate_proj`, [intermediateSize, hiddenSize], mlpBias, normed, gate);
  linear(builder, `${prefix}.mlp.up_proj`, [intermediateSize, hiddenSize], mlpBias, normed, up);
  builder.op({ kind: 'swiglu', gate, up, output: activated });
  linear(builder, `${prefix}.mlp.down_proj`, [hiddenSize, intermediateSize], mlpBias, activated, residual);
  builder.op({ kind: 'add', left: hidden, right: residual, output: hidden });
}

function norm(
  { config, builder }: Pick<LayerContext, 'config' | 'builder'>,
  name: string,
  input: BufferId,
  output: BufferId,
): void {
  const weight = builder.vector(name, config.hiddenSize, 'norm');
  builder.op({ kind: 'rmsNorm', input, weight, epsilon: config.normEpsilon, output });
}

function linear(
  builder: PlanBuilder,
  name: string,
  [rows, columns]: readonly [rows: number, columns: number],
  hasBias: boolean,
  input: BufferId,
  output: BufferId,
): void {
  const weight: WeightId = builder.matrix(`${name}.weight`, rows, columns);
  const bias = hasBias ? { bias: builder.vector(`${name}.bias`, rows, 'bias') } : {};
  builder.op({ kind: 'linear', input, weight, ...bias, output });
}
