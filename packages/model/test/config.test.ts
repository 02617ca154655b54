import { decoderPlan, parseModelConfig, ropeSpec } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { smallConfig } from './support/small-model.js';

const plan = (config: unknown) => decoderPlan(parseModelConfig(config), 'bf16');
const { head_dim: _headDim, rope_parameters: _rope, dtype: _dtype, ...rest } = smallConfig();
const oldStyle = (rope_theta?: number, rope_scaling: unknown = null) => ({
  ...rest,
  torch_dtype: 'bfloat16',
  ...(rope_theta !== undefined && { rope_theta }),
  rope_scaling,
});
const newStyle = (rope_parameters: unknown) => ({ ...smallConfig(), rope_parameters });
const badConfig = (message: RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_CONFIG', message: expect.stringMatching(message) });

describe('a config', () => {
  const llama3 = { factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 32 };
  const yarn = { factor: 4, original_max_position_embeddings: 16, beta_fast: 16, beta_slow: 2, attention_factor: 1.25 };

  it.each<[string, unknown, unknown]>([
    ['without scaling', oldStyle(5000), newStyle({ rope_type: 'default', rope_theta: 5000 })],
    ['without a theta', oldStyle(), newStyle({ rope_type: 'default', rope_theta: 10000 })],
    [
      'with linear scaling',
      oldStyle(1e4, { type: 'linear', factor: 2 }),
      newStyle({ rope_type: 'linear', factor: 2, rope_theta: 1e4 }),
    ],
    [
      'with llama3 scaling',
      oldStyle(5e5, { rope_type: 'llama3', ...llama3 }),
      newStyle({ rope_type: 'llama3', rope_theta: 5e5, ...llama3 }),
    ],
    [
      'with yarn scaling',
      oldStyle(1e4, { type: 'yarn', ...yarn }),
      newStyle({ rope_type: 'yarn', rope_theta: 1e4, ...yarn }),
    ],
  ])('of the old style %s gives the plan of the new style', (_what, old, modern) => {
    expect(plan(old)).toEqual(plan(modern));
  });

  it('has the defaults of transformers where it says nothing', () => {
    const { num_key_value_heads, rms_norm_eps, hidden_act, attention_bias, mlp_bias, tie_word_embeddings, ...short } =
      smallConfig();
    expect(parseModelConfig(short)).toMatchObject({
      kvHeadCount: 2,
      normEpsilon: 1e-6,
      biases: { queryKeyValue: false, attentionOutput: false, feedForward: false },
      head: 'own',
    });
  });

  it('may end a text at several ids', () => {
    expect(parseModelConfig({ ...smallConfig(), eos_token_id: [1, 2] }).eosIds).toEqual([1, 2]);
    expect(parseModelConfig({ ...smallConfig(), eos_token_id: null, bos_token_id: null })).toMatchObject({
      eosIds: [],
    });
  });

  it.each([
    ['an unknown architecture', { architectures: ['GPT2LMHeadModel'] }],
    ['no architecture', { architectures: [] }],
    ['a name from the prototype', { architectures: ['constructor'] }],
  ])('with %s is refused with the list of supported ones', (_what, change) => {
    expect(() => parseModelConfig({ ...smallConfig(), ...change })).toThrow(
      expect.objectContaining({
        code: 'STET_ERR_UNKNOWN_ARCHITECTURE',
        message: expect.stringContaining(
          'supported are LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, SmolLM3ForCausalLM, Phi3ForCausalLM, Olmo2ForCausalLM',
        ),
      }),
    );
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['another model_type', { model_type: 'qwen2' }, /model_type "qwen2"/],
    [
      'quantized weights',
      { quantization_config: { quant_method: 'awq' } },
      /quantization_config "awq" is not supported; supported are/,
    ],
    ['compressed weights', { compression_config: {} }, /quantization_config is not supported/],
    ['another activation', { hidden_act: 'gelu' }, /hidden_act "gelu" is not supported; supported are silu, swish/],
    ['no size', { hidden_size: undefined }, /hidden_size/],
    ['a size as text', { hidden_size: '16' }, /hidden_size/],
    ['a size of zero', { num_hidden_layers: 0 }, /num_hidden_layers/],
    ['a huge size', { intermediate_size: 1e9 }, /intermediate_size/],
    ['a huge vocabulary', { vocab_size: 1e12 }, /vocab_size/],
    ['a huge context', { max_position_embeddings: 2 ** 21 }, /max_position_embeddings/],
    ['heads that do not share', { num_attention_heads: 3, num_key_value_heads: 2 }, /3 heads cannot share 2/],
    [
      'heads that do not divide',
      { head_dim: null, num_attention_heads: 3, num_key_value_heads: 1 },
      /not a multiple of 3/,
    ],
    ['an odd head', { head_dim: 7 }, /head size 7/],
    ['heads that are too wide together', { num_attention_heads: 2048, head_dim: 1024 }, /more than 32768 columns/],
    ['an epsilon below the domain', { rms_norm_eps: 1e-21 }, /epsilon of norms, 1e-21/],
    ['an eos past the vocabulary', { eos_token_id: 259 }, /eos_token_id is 259/],
    ['a bos past the vocabulary', { bos_token_id: 259 }, /bos_token_id is 259/],
    ['half a rope', { partial_rotary_factor: 0.5 }, /partial_rotary_factor 0.5/],
    ['an infinite number', { rms_norm_eps: Number.POSITIVE_INFINITY }, /rms_norm_eps/],
  ])('with %s is refused', (_what, change, message) => {
    expect(() => parseModelConfig({ ...smallConfig(), ...change })).toThrow(badConfig(message));
  });

  it.each<[string, unknown, RegExp]>([
    [
      'dynamic',
      { rope_type: 'dynamic', factor: 2 },
      /"dynamic" is not supported; supported are default, linear, llama3, yarn/,
    ],
    ['longrope', { rope_type: 'longrope' }, /"longrope" is not supported/],
    ['factors, which only GGUF has', { rope_type: 'factors', factors: [1, 1, 1, 1] }, /"factors" is not supported/],
    ['mrope', { type: 'mrope', mrope_section: [2, 1, 1] }, /mrope/],
    ['sections of a default', { rope_type: 'default', mrope_section: [2, 1, 1] }, /mrope_section is not supported/],
    [
      'a scale of Llama 4',
      { rope_type: 'default', llama_4_scaling_beta: 0.1 },
      /llama_4_scaling_beta is not supported/,
    ],
    [
      'one for each type of layer',
      { full_attention: { rope_theta: 1e6 }, sliding_attention: { rope_theta: 1e4 } },
      /a rope of its own for "full_attention"/,
    ],
    ['linear without a factor', { rope_type: 'linear' }, /linear needs factor/],
    ['llama3 without a factor', { rope_type: 'llama3', low_freq_factor: 1 }, /llama3 needs high_freq_factor/],
    [
      'llama3 with equal factors',
      { rope_type: 'llama3', factor: 2, low_freq_factor: 1, high_freq_factor: 1 },
      /must be above/,
    ],
    ['a factor of 0', { rope_type: 'linear', factor: 0 }, /factor/],
    ['a theta of 1', { rope_type: 'default', rope_theta: 1 }, /rope_theta is 1/],
    ['a factor that turns too far', { rope_type: 'linear', factor: 1e-5 }, /turn further/],
  ])('with the rope %s is refused', (_what, rope, message) => {
    expect(() => plan(newStyle(rope))).toThrow(badConfig(message));
  });

  it.each<[string, unknown]>([
    ['embedding_multiplier', 12],
    ['residual_multiplier', 0.22],
    ['attention_multiplier', 0.0625],
    ['logits_scaling', 8],
    ['logit_scale', 0.0625],
    ['attn_logit_softcapping', 50],
    ['final_logit_softcapping', 30],
    ['query_pre_attn_scalar', 256],
    ['hidden_activation', 'gelu_pytorch_tanh'],
    ['use_bidirectional_attention', true],
    ['clip_qkv', 8],
    ['attention_chunk_size', 8192],
    ['num_local_experts', 8],
    ['rope_interleaved', true],
  ])('with %s of %j, which another architecture has, is refused, and not where it does nothing', (field, value) => {
    expect(() => parseModelConfig({ ...smallConfig(), [field]: value })).toThrow(
      badConfig(new RegExp(`${field} .* is not supported, LlamaForCausalLM has no such thing`)),
    );
    expect(parseModelConfig({ ...smallConfig(), [field]: null })).toEqual(parseModelConfig(smallConfig()));
  });

  it('may have the fields of another architecture with values that do nothing, and a split of its products', () => {
    const inert = { logits_scaling: 1, num_experts: 0, use_qk_norm: false, pretraining_tp: 2 };
    expect(parseModelConfig({ ...smallConfig(), ...inert })).toEqual(parseModelConfig(smallConfig()));
  });

  it('that has a rope in both styles takes the old one, as transformers does', () => {
    const both = {
      ...newStyle({ rope_type: 'default', rope_theta: 5000 }),
      rope_scaling: { type: 'linear', factor: 2 },
    };
    expect(parseModelConfig(both).rope).toEqual({ type: 'linear', theta: 10000, factor: 2 });
  });

  it.each([[null], [[]], ['text'], [7], [{}]])('that is %j is refused', (value) => {
    expect(() => parseModelConfig(value)).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/BAD_CONFIG|UNKNOWN_ARCHITECTURE/) }),
    );
  });
});

describe('rope frequencies', () => {
  it('are divided one by one where there are factors', () => {
    const plain = ropeSpec({ type: 'default', theta: 1e4 }, 8);
    const factors = [1, 2, 3.5, 32];
    expect(ropeSpec({ type: 'factors', theta: 1e4, factors }, 8)).toEqual({
      inverseFrequencies: plain.inverseFrequencies.map((frequency, pair) => frequency / factors[pair]!),
      attentionFactor: 1,
    });
    expect(() => ropeSpec({ type: 'factors', theta: 1e4, factors: [1] }, 8)).toThrow(/1 factors for 4 pairs/);
  });

  it('agree with the power function to 15 digits', () => {
    const { inverseFrequencies } = ropeSpec({ type: 'default', theta: 500000 }, 128);
    inverseFrequencies.forEach((frequency, pair) => {
      const expected = 500000 ** (-pair / 64);
      expect(Math.abs(frequency / expected - 1)).toBeLessThan(5e-15);
    });
  });

  it('of yarn have the attention factor of transformers, given, from mscale or from the factor', () => {
    const yarn = {
      type: 'yarn',
      theta: 1e4,
      factor: 4,
      originalContextLength: 64,
      betaFast: 32,
      betaSlow: 1,
      rounding: 'whole',
    } as const;
    const factor = 0.1 * Math.log(4) + 1;
    expect(ropeSpec(yarn, 16).attentionFactor).toBeCloseTo(factor, 14);
    expect(ropeSpec({ ...yarn, attentionFactor: 1.5 }, 16).attentionFactor).toBe(1.5);
    expect(ropeSpec({ ...yarn, mscale: 0.7, mscaleAllDim: 0.7 }, 16).attentionFactor).toBe(1);
    expect(ropeSpec({ ...yarn, mscale: 2, mscaleAllDim: 1 }, 16).attentionFactor).toBeCloseTo(
      (0.2 * Math.log(4) + 1) / factor,
      14,
    );
    expect(ropeSpec({ ...yarn, mscale: 0.7 }, 16).attentionFactor).toBeCloseTo(factor, 14);
    expect(ropeSpec({ ...yarn, factor: 0.5 }, 16).attentionFactor).toBe(1);
  });

  it('of yarn keep quick pairs, divide slow ones and blend those between', () => {
    const yarn = {
      type: 'yarn',
      theta: 1e4,
      factor: 4,
      originalContextLength: 64,
      betaFast: 4,
      betaSlow: 1,
      rounding: 'none',
    } as const;
    const plain = ropeSpec({ type: 'default', theta: 1e4 }, 16).inverseFrequencies;
    const ratios = ropeSpec(yarn, 16).inverseFrequencies.map((frequency, pair) => plain[pair]! / frequency);
    expect(ratios[0]).toBe(1);
    expect(ratios.slice(3)).toEqual(Array(5).fill(4));
    expect(ratios[1]!).toBeGreaterThan(1);
    expect(ratios[2]!).toBeGreaterThan(ratios[1]!);
    expect(ratios[2]!).toBeLessThan(4);
  });
});
