import { type Plan, StetError, type WeightFormat } from '@stet/backend';
import type { DecoderConfig } from '../config/decoder-config.js';
import { attentionBlock } from './attention-block.js';
import { feedForwardBlock } from './feed-forward-block.js';
import { declareBuffers, type LayerContext } from './layer-context.js';
import { PlanBuilder } from './plan-builder.js';
import { ropeSpec } from './rope.js';

/** Angles of the rope series must stay below it. */
const MAX_ANGLE = 2 ** 20;

/**
 * The plan of a decoder: a pure function of its config. Weights have the names that Hugging Face's Llama gives them
 * (`model.layers.0.self_attn.q_proj.weight`), whatever names and layout the checkpoint has; `WeightPlaces` leads from
 * one to the other. `format` is that of all matrices, or gives that of each by its name. Throws `STET_ERR_BAD_CONFIG` or `STET_ERR_BAD_PLAN`.
 */
export function decoderPlan(config: DecoderConfig, format: WeightFormat | ((matrix: string) => WeightFormat)): Plan {
  const { vocabSize, hiddenSize, contextLength, kvHeadCount, headSize } = config;
  const builder = new PlanBuilder(typeof format === 'function' ? format : () => format);
  const rope = ropeSpec(config.rope, headSize);
  if (contextLength * Math.max(...rope.inverseFrequencies) > MAX_ANGLE) {
    throw new StetError(
      'STET_ERR_BAD_CONFIG',
      `positions up to ${contextLength} turn further than the rope series reach`,
    );
  }
  const buffers = declareBuffers(config, builder);
  const context: LayerContext = { config, builder, buffers, rope: builder.rope(rope) };
  const table = builder.matrix('model.embed_tokens.weight', vocabSize, hiddenSize);
  builder.op({ kind: 'embed', table, output: buffers.hidden });
  for (const layer of config.layers.keys()) {
    attentionBlock(context, layer);
    feedForwardBlock(context, layer);
  }
  builder.op({
    kind: 'logits',
    input: buffers.hidden,
    norm: builder.vector('model.norm.weight', hiddenSize, 'norm'),
    epsilon: config.normEpsilon,
    weight: config.head === 'tied' ? table : builder.matrix('lm_head.weight', vocabSize, hiddenSize),
  });
  return builder.build({
    architecture: config.family,
    vocabSize,
    contextLength,
    layerCount: config.layers.length,
    kvHeadCount,
    headSize,
  });
}
