import { StetError } from '@stet/backend';
import { z } from 'zod';
import { quote } from '../files/quote.js';
import { badConfig, parseConfig } from './config-error.js';
import { type RopeConfig, ropeConfig, ropeFields } from './rope-config.js';

/** What a config says about a model of the Llama family, old and new style alike, defaults filled in. */
export interface LlamaConfig {
  readonly architecture: SupportedArchitecture;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly layerCount: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly contextLength: number;
  readonly normEpsilon: number;
  readonly rope: RopeConfig;
  readonly attentionBias: boolean;
  readonly mlpBias: boolean;
  /** `tied`: the embedding is the head too. */
  readonly head: 'tied' | 'own';
  readonly bosId?: number;
  readonly eosIds: readonly number[];
}

/** `architectures` of config.json, and the `model_type` that must go with it. */
const architectures = { LlamaForCausalLM: 'llama', MistralForCausalLM: 'mistral' } as const;

export type SupportedArchitecture = keyof typeof architectures;

export const supportedArchitectures = Object.keys(architectures) as readonly SupportedArchitecture[];

/**
 * Upper limits, checked before anything is sized by these numbers. Columns of a matrix are at most 32768, because the
 * numerics are exact up to there; positions are below 2^20, because the rope series are.
 */
const MAX_COLUMNS = 32768;
const MAX_VOCAB = 2 ** 21;
const MAX_LAYERS = 1024;
const MAX_HEADS = 2048;
const MAX_HEAD_SIZE = 1024;
const MAX_CONTEXT = 2 ** 20;
/** Smallest fl(width·epsilon) of the numerics' domain. */
const MIN_SCALED_EPSILON = 2 ** -60;

const count = (max: number): z.ZodNumber => z.number().int().min(1).max(max);
const tokenId = z.number().int().min(0).max(MAX_VOCAB);

const identity = z.object({
  architectures: z.array(z.string()).nullish(),
  model_type: z.string().nullish(),
});

const schema = z.object({
  vocab_size: count(MAX_VOCAB),
  hidden_size: count(MAX_COLUMNS),
  intermediate_size: count(MAX_COLUMNS),
  num_hidden_layers: count(MAX_LAYERS),
  num_attention_heads: count(MAX_HEADS),
  num_key_value_heads: count(MAX_HEADS).nullish(),
  head_dim: count(MAX_HEAD_SIZE).nullish(),
  max_position_embeddings: count(MAX_CONTEXT),
  rms_norm_eps: z.number().positive().max(1).default(1e-6),
  hidden_act: z.string().default('silu'),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  tie_word_embeddings: z.boolean().default(false),
  sliding_window: z.number().int().min(1).nullish(),
  quantization_config: z.unknown().optional(),
  bos_token_id: tokenId.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId).max(256)]).nullish(),
  ...ropeFields,
});

/** Throws `STET_ERR_UNKNOWN_ARCHITECTURE` or `STET_ERR_BAD_CONFIG`. */
export function parseModelConfig(value: unknown): LlamaConfig {
  const architecture = parseArchitecture(value);
  const fields = parseConfig(schema, value, 'config.json');
  const { hidden_size: hiddenSize, num_attention_heads: headCount } = fields;
  if (fields.quantization_config != null)
    badConfig('quantization_config is not supported; use the unquantized checkpoint');
  if (fields.hidden_act !== 'silu' && fields.hidden_act !== 'swish') {
    badConfig(`hidden_act ${quote(fields.hidden_act)} is not supported, only silu`);
  }
  if (Math.fround(hiddenSize * fields.rms_norm_eps) < MIN_SCALED_EPSILON) {
    badConfig(`rms_norm_eps ${fields.rms_norm_eps} is too small for the numerics`);
  }
  const kvHeadCount = fields.num_key_value_heads ?? headCount;
  if (headCount % kvHeadCount !== 0) badConfig(`${headCount} heads cannot share ${kvHeadCount} key and value heads`);
  if (fields.head_dim == null && hiddenSize % headCount !== 0) {
    badConfig(`hidden_size ${hiddenSize} is not a multiple of ${headCount} heads and head_dim is absent`);
  }
  const headSize = fields.head_dim ?? hiddenSize / headCount;
  if (headSize > MAX_HEAD_SIZE || headSize % 2 !== 0)
    badConfig(`head size ${headSize} must be even, at most ${MAX_HEAD_SIZE}`);
  if (headCount * headSize > MAX_COLUMNS)
    badConfig(`${headCount} heads of ${headSize} are more than ${MAX_COLUMNS} columns`);
  if (architecture === 'MistralForCausalLM') checkWindow(value, fields.sliding_window, fields.max_position_embeddings);
  return {
    architecture,
    vocabSize: fields.vocab_size,
    hiddenSize,
    intermediateSize: fields.intermediate_size,
    layerCount: fields.num_hidden_layers,
    headCount,
    kvHeadCount,
    headSize,
    contextLength: fields.max_position_embeddings,
    normEpsilon: fields.rms_norm_eps,
    rope: ropeConfig(fields),
    // Mistral has no biases, whatever its config says.
    attentionBias: architecture === 'LlamaForCausalLM' && fields.attention_bias,
    mlpBias: architecture === 'LlamaForCausalLM' && fields.mlp_bias,
    head: fields.tie_word_embeddings ? 'tied' : 'own',
    ...(fields.bos_token_id != null && { bosId: checkId('bos_token_id', fields.bos_token_id, fields.vocab_size) }),
    eosIds: [fields.eos_token_id ?? []].flat().map((id) => checkId('eos_token_id', id, fields.vocab_size)),
  };
}

export function checkId(field: string, id: number, vocabSize: number): number {
  if (id >= vocabSize) badConfig(`${field} is ${id}, the vocabulary has ${vocabSize} ids`);
  return id;
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
  if (fields.model_type != null && fields.model_type !== architectures[architecture]) {
    badConfig(`model_type ${quote(fields.model_type)} does not go with ${architecture}`);
  }
  return architecture;
}

/** A window that is never shorter than the context changes nothing; an absent one has transformers' default of 4096. */
function checkWindow(value: unknown, window: number | null | undefined, contextLength: number): void {
  const effective = Object.hasOwn(value as object, 'sliding_window') ? (window ?? contextLength) : 4096;
  if (effective < contextLength) {
    badConfig(`sliding_window ${effective} below the context of ${contextLength} is not supported`);
  }
}
