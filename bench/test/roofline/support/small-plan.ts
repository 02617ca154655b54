import type { Plan } from '@stet/backend';
import { decoderPlan, parseModelConfig } from '@stet/model';

/** Two layers of four heads of 32 over two of K/V. */
export const plan: Plan = decoderPlan(
  parseModelConfig({
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: 128,
    intermediate_size: 192,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 32,
    vocab_size: 96,
    max_position_embeddings: 64,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    hidden_act: 'silu',
    tie_word_embeddings: true,
  }),
  'bf16',
);
