import type { FamilyRules } from './family.js';
import { llama } from './llama.js';
import { mistral } from './mistral.js';
import { olmo2 } from './olmo2.js';
import { phi3 } from './phi3.js';
import { qwen2 } from './qwen2.js';
import { qwen3 } from './qwen3.js';
import { smollm3 } from './smollm3.js';

/** `architectures` of config.json, and the rules of each. */
export const architectures = {
  LlamaForCausalLM: llama,
  MistralForCausalLM: mistral,
  Qwen2ForCausalLM: qwen2,
  Qwen3ForCausalLM: qwen3,
  SmolLM3ForCausalLM: smollm3,
  Phi3ForCausalLM: phi3,
  Olmo2ForCausalLM: olmo2,
} as const satisfies Record<string, FamilyRules>;

export type SupportedArchitecture = keyof typeof architectures;

export const supportedArchitectures = Object.keys(architectures) as readonly SupportedArchitecture[];
