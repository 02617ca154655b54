import { z } from 'zod';
import { decoderLimits } from './decoder-limits.js';
import { ropeFields } from './rope-config.js';

const count = (max: number): z.ZodNumber => z.number().int().min(1).max(max);
const tokenId = z.number().int().min(0).max(decoderLimits.vocabSize);

/** The fields of config.json that a supported family may have; absent and null are kept apart where they differ. */
export const configFields = z.object({
  vocab_size: count(decoderLimits.vocabSize),
  hidden_size: count(decoderLimits.columns),
  intermediate_size: count(decoderLimits.columns),
  num_hidden_layers: count(decoderLimits.layers),
  num_attention_heads: count(decoderLimits.heads),
  num_key_value_heads: count(decoderLimits.heads).nullish(),
  head_dim: count(decoderLimits.headSize).nullish(),
  max_position_embeddings: count(decoderLimits.contextLength),
  rms_norm_eps: z.number().positive().max(1).nullish(),
  hidden_act: z.string().nullish(),
  attention_bias: z.boolean().nullish(),
  mlp_bias: z.boolean().nullish(),
  tie_word_embeddings: z.boolean().nullish(),
  sliding_window: count(Number.MAX_SAFE_INTEGER).nullish(),
  use_sliding_window: z.boolean().nullish(),
  max_window_layers: z.number().int().min(0).nullish(),
  layer_types: z.array(z.string()).max(decoderLimits.layers).nullish(),
  no_rope_layers: z
    .array(z.union([z.literal(0), z.literal(1), z.boolean()]))
    .max(decoderLimits.layers)
    .nullish(),
  no_rope_layer_interval: count(decoderLimits.layers).nullish(),
  bos_token_id: tokenId.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId).max(256)]).nullish(),
  ...ropeFields,
});

export type ConfigFields = z.infer<typeof configFields>;
