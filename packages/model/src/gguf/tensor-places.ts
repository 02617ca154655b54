import { assert } from '@stet/backend';
import type { DecoderConfig } from '../config/decoder-config.js';
import type { TensorRows, WeightPlaces } from '../weights/stored-tensor.js';
import type { GgufArchitecture } from './architectures/architecture.js';
import type { GgufTensors } from './split/open-gguf.js';

/** Names of what is there once. */
const MODEL_TENSORS: Readonly<Record<string, string>> = {
  'model.embed_tokens': 'token_embd',
  'model.norm': 'output_norm',
  lm_head: 'output',
};

/** Names of what each layer has, in the plan and after `blk.0.`; norms and what may be fused are not among them. */
const LAYER_TENSORS: Readonly<Record<string, string>> = {
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'self_attn.o_proj': 'attn_output',
  'mlp.down_proj': 'ffn_down',
};

/** Norms by where they stand, see `DecoderConfig.blockNorms`. */
const NORMS: Readonly<Record<DecoderConfig['blockNorms'], Readonly<Record<string, string>>>> = {
  before: { input_layernorm: 'attn_norm', post_attention_layernorm: 'ffn_norm' },
  after: { post_attention_layernorm: 'post_attention_norm', post_feedforward_layernorm: 'post_ffw_norm' },
};

/** From the names of the plan, which are those of Hugging Face's Llama, to the tensors of a GGUF file. */
export function ggufPlaces(architecture: GgufArchitecture, config: DecoderConfig, tensors: GgufTensors): WeightPlaces {
  return (weight) => {
    const [, module = '', kind = ''] = /^(.*)\.(weight|bias)$/.exec(weight) ?? [];
    const modelTensor = MODEL_TENSORS[module];
    if (modelTensor !== undefined) return { tensor: `${modelTensor}.${kind}` };
    const [, layer = '', part = ''] = /^model\.layers\.(\d+)\.(.*)$/.exec(module) ?? [];
    const tensor = (name: string): string => `blk.${layer}.${name}.${kind}`;
    const plain = LAYER_TENSORS[part] ?? NORMS[architecture.blockNorms][part];
    if (plain !== undefined) return { tensor: tensor(plain) };
    if (part.startsWith('self_attn.')) return attentionPlace(architecture, config, tensors, part, tensor);
    return feedForwardPlace(architecture, config, part, tensor);
  };
}

/** Queries, keys and values: tensors of their own, or one `attn_qkv` with the rows of all three. */
function attentionPlace(
  { headRows }: GgufArchitecture,
  { headCount, kvHeadCount, headSize }: DecoderConfig,
  tensors: GgufTensors,
  part: string,
  tensor: (name: string) => string,
): TensorRows {
  const [queryRows, keyRows] = [headCount * headSize, kvHeadCount * headSize];
  const parts = {
    'self_attn.q_proj': { name: 'attn_q', firstRow: 0, order: headRows },
    'self_attn.k_proj': { name: 'attn_k', firstRow: queryRows, order: headRows },
    'self_attn.v_proj': { name: 'attn_v', firstRow: queryRows + keyRows, order: 'halves' },
  } as const;
  const place = parts[part as keyof typeof parts];
  assert(place, `${part} is no part of attention`);
  const fused = tensor('attn_qkv');
  return {
    ...(tensors.has(fused)
      ? { tensor: fused, slice: { firstRow: place.firstRow, tensorRows: queryRows + 2 * keyRows } }
      : { tensor: tensor(place.name) }),
    ...(place.order === 'pairs' && { headRows: { order: place.order, headSize } }),
  };
}

function feedForwardPlace(
  { gateAndUp }: GgufArchitecture,
  { intermediateSize }: DecoderConfig,
  part: string,
  tensor: (name: string) => string,
): TensorRows {
  const parts = {
    'mlp.gate_proj': { name: 'ffn_gate', firstRow: 0 },
    'mlp.up_proj': { name: 'ffn_up', firstRow: intermediateSize },
  } as const;
  const place = parts[part as keyof typeof parts];
  assert(place, `${part} is no part of the plan's layers`);
  if (gateAndUp === 'separate') return { tensor: tensor(place.name) };
  return { tensor: tensor('ffn_up'), slice: { firstRow: place.firstRow, tensorRows: 2 * intermediateSize } };
}
