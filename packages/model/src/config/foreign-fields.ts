import { quote } from '../files/quote.js';
import { badConfig } from './config-error.js';

/**
 * Fields of other architectures that change what a model computes, and the values with which they do nothing. A model
 * that has one of them under a supported name would be computed wrongly without a word. (Not among them:
 * `pretraining_tp`, which splits a product without changing it, and biases and norms, which show as tensors.)
 */
const inertValues: Readonly<Record<string, readonly unknown[]>> = {
  // Granite, MiniCPM, Cohere
  embedding_multiplier: [1],
  residual_multiplier: [1],
  attention_multiplier: [],
  logits_scaling: [1],
  logit_scale: [1],
  scale_emb: [1],
  scale_depth: [],
  dim_model_base: [],
  // Gemma
  query_pre_attn_scalar: [],
  attn_logit_softcapping: [],
  final_logit_softcapping: [],
  hidden_activation: ['silu', 'swish'],
  use_bidirectional_attention: [false],
  // OLMo, Cohere, GPT-NeoX
  clip_qkv: [],
  use_qk_norm: [false],
  use_parallel_residual: [false],
  // Llama 4, Ministral, GLM
  attn_temperature_tuning: [false, 0],
  attention_chunk_size: [],
  interleaved_sliding_window: [],
  rope_interleave: [false],
  rope_interleaved: [false],
  // Mixtures, others
  num_experts: [0],
  num_local_experts: [0],
  n_routed_experts: [0],
  alibi: [false],
  is_encoder_decoder: [false],
};

/** Throws `STET_ERR_BAD_CONFIG` that names the first field of another architecture that is not without effect. */
export function refuseForeignFields(value: object, architecture: string): void {
  for (const [field, inert] of Object.entries(inertValues)) {
    const given: unknown = Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : null;
    if (given !== null && !inert.includes(given)) {
      badConfig(`${field} ${quote(given)} is not supported, ${architecture} has no such thing`);
    }
  }
}
