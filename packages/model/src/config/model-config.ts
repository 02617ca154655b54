import { StetError } from '@stet/backend';
import { z } from 'zod';
import { quote } from '../files/quote.js';
import { badConfig, parseConfig } from './config-error.js';
import { type ConfigFields, configFields } from './config-fields.js';
import type { DecoderConfig } from './decoder-config.js';
import { checkDecoderConfig } from './decoder-limits.js';
import type { FamilyRules } from './families/family.js';
import { architectures, type SupportedArchitecture, supportedArchitectures } from './families/index.js';
import { refuseForeignFields } from './foreign-fields.js';
import { ropeConfig } from './rope-config.js';

/** The only activation that the supported families have; `swish` is another name for it. */
const ACTIVATIONS = ['silu', 'swish'];

const identity = z.object({
  architectures: z.array(z.string()).nullish(),
  model_type: z.string().nullish(),
  quantization_config: z.unknown().optional(),
  compression_config: z.unknown().optional(),
});

/**
 * config.json of either style (`rope_parameters`, `dtype`, `layer_types` since transformers 5), with the defaults of
 * transformers. Throws `STET_ERR_UNKNOWN_ARCHITECTURE`, or `STET_ERR_BAD_CONFIG` for what would be computed wrongly.
 */
export function parseModelConfig(value: unknown): DecoderConfig {
  const architecture = parseArchitecture(value);
  refuseForeignFields(value as object, architecture);
  const fields = parseConfig(configFields, value, 'config.json');
  const rules: FamilyRules = architectures[architecture];
  const activation = fields.hidden_act ?? 'silu';
  if (!ACTIVATIONS.includes(activation)) {
    badConfig(`hidden_act ${quote(activation)} is not supported; supported are ${ACTIVATIONS.join(', ')}`);
  }
  const config: DecoderConfig = {
    family: rules.family,
    vocabSize: fields.vocab_size,
    hiddenSize: fields.hidden_size,
    intermediateSize: fields.intermediate_size,
    headCount: fields.num_attention_heads,
    kvHeadCount: kvHeadCount(fields, rules),
    headSize: headSize(fields, rules),
    contextLength: fields.max_position_embeddings,
    normEpsilon: fields.rms_norm_eps ?? rules.defaults.normEpsilon,
    rope: ropeConfig(fields, rules.defaults.ropeTheta, rules.ropeTypes),
    layers: rules.layers(fields),
    biases: rules.biases(fields),
    blockNorms: rules.blockNorms,
    queryKeyNorms: rules.queryKeyNorms,
    head: head(fields, rules),
    ...(fields.bos_token_id != null && { bosId: fields.bos_token_id }),
    eosIds: [fields.eos_token_id ?? []].flat(),
  };
  checkDecoderConfig(config, 'config.json');
  return config;
}

function parseArchitecture(value: unknown): SupportedArchitecture {
  const fields = parseConfig(identity, value, 'config.json');
  const name = fields.architectures?.[0];
  if (name === undefined || !Object.hasOwn(architectures, name)) {
    const found = name === undefined ? 'names no architecture' : `names the architecture ${quote(name)}`;
    throw new StetError(
      'STET_ERR_UNKNOWN_ARCHITECTURE',
      `config.json ${found}; supported are ${supportedArchitectures.join(', ')}`,
    );
  }
  const architecture = name as SupportedArchitecture;
  if (fields.model_type != null && fields.model_type !== architectures[architecture].modelType) {
    badConfig(`model_type ${quote(fields.model_type)} does not go with ${architecture}`);
  }
  const quantization = fields.quantization_config ?? fields.compression_config;
  if (quantization != null) {
    const { quant_method: method } = quantization as { quant_method?: unknown };
    const named = method === undefined ? '' : ` ${quote(method)}`;
    badConfig(
      `quantization_config${named} is not supported; supported are checkpoints in F32, F16 or BF16, and GGUF files`,
    );
  }
  return architecture;
}

/** Null means as many as heads; absent means what the family's own default is. */
function kvHeadCount(fields: ConfigFields, { defaults }: FamilyRules): number {
  const { num_key_value_heads: given, num_attention_heads: headCount } = fields;
  if (given === undefined) return defaults.kvHeadCount ?? headCount;
  return given ?? headCount;
}

function headSize(fields: ConfigFields, { defaults }: FamilyRules): number {
  const { head_dim: given, hidden_size: hiddenSize, num_attention_heads: headCount } = fields;
  const size = given ?? defaults.headSize;
  if (size !== undefined) return size;
  if (hiddenSize % headCount !== 0) {
    badConfig(`hidden_size ${hiddenSize} is not a multiple of ${headCount} heads and head_dim is absent`);
  }
  return hiddenSize / headCount;
}

function head(fields: ConfigFields, { defaults }: FamilyRules): DecoderConfig['head'] {
  const tied = fields.tie_word_embeddings;
  if (tied == null) return defaults.head;
  return tied ? 'tied' : 'own';
}
