import type { GgufContents, GgufTensor, TypedValue } from './gguf-writer.js';
import { smallTensor, type TensorData } from './small-model.js';

/**
 * A small model of a family, in Hugging Face layout, with what the converter of llama.cpp (its folder `conversion`)
 * makes of it: written here from the converter's side, so that it shares nothing with the reader.
 */
export interface FamilyCase {
  readonly title: string;
  /** config.json. */
  readonly config: SmallFamilyConfig;
  /** `general.architecture`. */
  readonly architecture: string;
  /** Keys besides those that all families have, without the architecture. */
  readonly keys?: Readonly<Record<string, TypedValue>>;
  /** Tensors that the converter adds. */
  readonly extraTensors?: readonly GgufTensor[];
}

export interface SmallFamilyConfig {
  readonly architectures: readonly [string];
  readonly vocab_size: number;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly max_position_embeddings: number;
  readonly rms_norm_eps: number;
  readonly tie_word_embeddings: boolean;
  readonly rope_parameters: Readonly<Record<string, string | number>>;
  readonly attention_bias?: boolean;
  readonly mlp_bias?: boolean;
  readonly sliding_window?: number | null;
}

const common: Omit<SmallFamilyConfig, 'architectures'> = {
  vocab_size: 67,
  hidden_size: 48,
  intermediate_size: 40,
  num_hidden_layers: 5,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 12,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-5,
  tie_word_embeddings: false,
  rope_parameters: { rope_type: 'default', rope_theta: 10000 },
};
const of = (architecture: string, more: Partial<SmallFamilyConfig> = {}): SmallFamilyConfig => ({
  ...common,
  architectures: [architecture],
  ...more,
});

/** The factors of Llama 3.2, and two that lie in the blended part. */
const LLAMA3_FACTORS = Float32Array.of(1, 1, 1.25, 7.5, 32, 32);

export const familyCases: readonly FamilyCase[] = [
  { title: 'Llama', config: of('LlamaForCausalLM'), architecture: 'llama' },
  {
    title: 'Llama with biases and a tied head',
    config: of('LlamaForCausalLM', { attention_bias: true, mlp_bias: true, tie_word_embeddings: true }),
    architecture: 'llama',
  },
  {
    title: 'Llama whose heads do not share',
    config: of('LlamaForCausalLM', { num_key_value_heads: 4, head_dim: 6 }),
    architecture: 'llama',
  },
  {
    title: 'Llama with a linear rope',
    config: of('LlamaForCausalLM', { rope_parameters: { rope_type: 'linear', rope_theta: 500000, factor: 2.5 } }),
    architecture: 'llama',
    keys: { 'rope.scaling.type': ['string', 'linear'], 'rope.scaling.factor': ['f32', 2.5] },
  },
  {
    title: 'Llama with a yarn rope',
    config: of('LlamaForCausalLM', {
      rope_parameters: { rope_type: 'yarn', rope_theta: 10000, factor: 4, original_max_position_embeddings: 32 },
    }),
    architecture: 'llama',
    keys: {
      'rope.scaling.type': ['string', 'yarn'],
      'rope.scaling.factor': ['f32', 4],
      'rope.scaling.original_context_length': ['u32', 32],
    },
  },
  {
    title: 'Llama with a yarn rope and all its numbers',
    config: of('LlamaForCausalLM', {
      rope_parameters: {
        rope_type: 'yarn',
        rope_theta: 10000,
        factor: 4,
        original_max_position_embeddings: 32,
        attention_factor: 1.1,
        beta_fast: 8.5,
        beta_slow: 1.5,
      },
    }),
    architecture: 'llama',
    keys: {
      'rope.scaling.type': ['string', 'yarn'],
      'rope.scaling.factor': ['f32', 4],
      'rope.scaling.original_context_length': ['u32', 32],
      'rope.scaling.yarn_ext_factor': ['f32', 1],
      'rope.scaling.yarn_attn_factor': ['f32', 1.1],
      'rope.scaling.yarn_beta_fast': ['f32', 8.5],
      'rope.scaling.yarn_beta_slow': ['f32', 1.5],
    },
  },
  {
    title: 'Mistral',
    config: of('MistralForCausalLM', { sliding_window: 24 }),
    architecture: 'llama',
    keys: { 'attention.sliding_window': ['u32', 24] },
  },
  { title: 'Qwen2', config: of('Qwen2ForCausalLM', { rms_norm_eps: 1e-6 }), architecture: 'qwen2' },
  {
    title: 'Qwen3',
    config: of('Qwen3ForCausalLM', { head_dim: 16, tie_word_embeddings: true }),
    architecture: 'qwen3',
  },
  {
    title: 'SmolLM3',
    config: of('SmolLM3ForCausalLM', { tie_word_embeddings: true }),
    architecture: 'smollm3',
  },
  {
    title: 'Phi-3',
    config: of('Phi3ForCausalLM', { sliding_window: 24 }),
    architecture: 'phi3',
    keys: { 'attention.sliding_window': ['u32', 24], 'rope.scaling.original_context_length': ['u32', 128] },
  },
  {
    title: 'Phi-3 without a window',
    config: of('Phi3ForCausalLM', { sliding_window: null }),
    architecture: 'phi3',
    keys: { 'attention.sliding_window': ['u32', 0] },
  },
  { title: 'OLMo 2', config: of('Olmo2ForCausalLM'), architecture: 'olmo2' },
];

/** A Llama with a tensor of factors, and these factors. */
export const factorsCase: FamilyCase & { readonly factors: readonly number[] } = {
  title: 'Llama 3',
  config: of('LlamaForCausalLM'),
  architecture: 'llama',
  extraTensors: [{ name: 'rope_freqs.weight', type: 0, shape: [6], bytes: new Uint8Array(LLAMA3_FACTORS.buffer) }],
  factors: Array.from(LLAMA3_FACTORS),
};

/** The tensors of a family in Hugging Face layout, BF16 values that depend on the name. */
export function familyTensors(config: SmallFamilyConfig): TensorData[] {
  const { hidden_size: hidden, intermediate_size: intermediate, head_dim: head } = config;
  const family = config.architectures[0];
  const query = config.num_attention_heads * head;
  const key = config.num_key_value_heads * head;
  const attentionBias = family === 'Qwen2ForCausalLM' || (config.attention_bias ?? false);
  const tensors: TensorData[] = [];
  const add = (name: string, ...shape: number[]): void => void tensors.push(smallTensor(name, shape));
  const linear = (name: string, rows: number, columns: number, hasBias: boolean): void => {
    add(`${name}.weight`, rows, columns);
    if (hasBias) add(`${name}.bias`, rows);
  };
  add('model.embed_tokens.weight', config.vocab_size, hidden);
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const prefix = `model.layers.${layer}`;
    if (family === 'Phi3ForCausalLM') {
      linear(`${prefix}.self_attn.qkv_proj`, query + 2 * key, hidden, false);
      linear(`${prefix}.mlp.gate_up_proj`, 2 * intermediate, hidden, false);
    } else {
      linear(`${prefix}.self_attn.q_proj`, query, hidden, attentionBias);
      linear(`${prefix}.self_attn.k_proj`, key, hidden, attentionBias);
      linear(`${prefix}.self_attn.v_proj`, key, hidden, attentionBias);
      linear(`${prefix}.mlp.gate_proj`, intermediate, hidden, config.mlp_bias ?? false);
      linear(`${prefix}.mlp.up_proj`, intermediate, hidden, config.mlp_bias ?? false);
    }
    linear(`${prefix}.self_attn.o_proj`, hidden, query, family !== 'Qwen2ForCausalLM' && attentionBias);
    linear(`${prefix}.mlp.down_proj`, hidden, intermediate, config.mlp_bias ?? false);
    if (family === 'Olmo2ForCausalLM') {
      add(`${prefix}.self_attn.q_norm.weight`, query);
      add(`${prefix}.self_attn.k_norm.weight`, key);
      add(`${prefix}.post_feedforward_layernorm.weight`, hidden);
    } else {
      add(`${prefix}.input_layernorm.weight`, hidden);
    }
    if (family === 'Qwen3ForCausalLM') {
      add(`${prefix}.self_attn.q_norm.weight`, head);
      add(`${prefix}.self_attn.k_norm.weight`, head);
    }
    add(`${prefix}.post_attention_layernorm.weight`, hidden);
  }
  add('model.norm.weight', hidden);
  if (!config.tie_word_embeddings) add('lm_head.weight', config.vocab_size, hidden);
  return tensors;
}

/** How matrices are stored; vectors are F32 always, as the converter does it. */
export type MatrixType = 'F32' | 'BF16';

/** The converter. */
export function convert(family: FamilyCase, tensors: readonly TensorData[], matrices: MatrixType): GgufContents {
  const { config, architecture, keys = {}, extraTensors = [] } = family;
  const own: Record<string, TypedValue> = {
    block_count: ['u32', config.num_hidden_layers],
    context_length: ['u32', config.max_position_embeddings],
    embedding_length: ['u32', config.hidden_size],
    feed_forward_length: ['u32', config.intermediate_size],
    'attention.head_count': ['u32', config.num_attention_heads],
    'attention.head_count_kv': ['u32', config.num_key_value_heads],
    'attention.layer_norm_rms_epsilon': ['f32', config.rms_norm_eps],
    'rope.freq_base': ['f32', config.rope_parameters.rope_theta as number],
    ...(config.head_dim !== config.hidden_size / config.num_attention_heads && {
      'attention.key_length': ['u32', config.head_dim],
      'attention.value_length': ['u32', config.head_dim],
    }),
    ...(['llama', 'smollm3'].includes(architecture) && {
      vocab_size: ['u32', config.vocab_size],
      'rope.dimension_count': ['u32', config.head_dim],
    }),
    ...keys,
  };
  return {
    metadata: {
      'general.architecture': ['string', architecture],
      ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value])),
    },
    tensors: [...extraTensors, ...tensors.map((tensor) => convertTensor(family, tensor, matrices))],
  };
}

function convertTensor({ config, architecture }: FamilyCase, tensor: TensorData, matrices: MatrixType): GgufTensor {
  let { bytes } = tensor;
  if (architecture === 'llama' || architecture === 'smollm3') {
    if (/\.q_proj\.(weight|bias)$/.test(tensor.name)) bytes = permute(tensor, config.num_attention_heads);
    if (/\.k_proj\.(weight|bias)$/.test(tensor.name)) bytes = permute(tensor, config.num_key_value_heads);
  }
  const asFloat = tensor.shape.length === 1 || matrices === 'F32';
  return {
    name: ggufName(tensor.name, architecture),
    type: asFloat ? 0 : 30,
    shape: tensor.shape,
    bytes: asFloat ? widen(bytes) : bytes,
  };
}

/** `weights.reshape(heads, 2, rows / heads / 2, …).swapaxes(1, 2)` of the converter's LlamaModel. */
function permute({ shape, bytes }: TensorData, headCount: number): Uint8Array {
  const [rows = 0] = shape;
  const rowBytes = bytes.length / rows;
  const half = rows / headCount / 2;
  const result = new Uint8Array(bytes.length);
  let to = 0;
  for (let head = 0; head < headCount; head++) {
    for (let i = 0; i < half; i++) {
      for (let part = 0; part < 2; part++) {
        const from = (head * 2 + part) * half + i;
        result.set(bytes.subarray(from * rowBytes, (from + 1) * rowBytes), to++ * rowBytes);
      }
    }
  }
  return result;
}

/** BF16 as F32. */
function widen(bytes: Uint8Array): Uint8Array {
  const result = new Uint8Array(2 * bytes.length);
  for (let i = 0; i < bytes.length; i += 2) result.set(bytes.subarray(i, i + 2), 2 * i + 2);
  return result;
}

/** `gguf.tensor_mapping`, for the names that these families have. */
function ggufName(name: string, architecture: string): string {
  const blocks: Readonly<Record<string, string>> = {
    'self_attn.q_proj': 'attn_q',
    'self_attn.k_proj': 'attn_k',
    'self_attn.v_proj': 'attn_v',
    'self_attn.qkv_proj': 'attn_qkv',
    'self_attn.o_proj': 'attn_output',
    'self_attn.q_norm': 'attn_q_norm',
    'self_attn.k_norm': 'attn_k_norm',
    'mlp.gate_proj': 'ffn_gate',
    'mlp.up_proj': 'ffn_up',
    'mlp.gate_up_proj': 'ffn_up',
    'mlp.down_proj': 'ffn_down',
    input_layernorm: 'attn_norm',
    post_attention_layernorm: architecture === 'olmo2' ? 'post_attention_norm' : 'ffn_norm',
    post_feedforward_layernorm: 'post_ffw_norm',
  };
  const block = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name);
  if (block) return `blk.${block[1]}.${blocks[block[2]!]}.${block[3]}`;
  return name
    .replace('model.embed_tokens', 'token_embd')
    .replace('model.norm', 'output_norm')
    .replace('lm_head', 'output');
}
