import { isStetError, type Op, type Plan } from '@stet/backend';
import { decoderPlan, parseModelConfig, supportedArchitectures } from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasSharedModels, needsSharedModels, readSharedJson } from './support/shared-models.js';
import { smallConfig } from './support/small-model.js';

const modelTypes: Record<string, string> = {
  LlamaForCausalLM: 'llama',
  MistralForCausalLM: 'mistral',
  Qwen2ForCausalLM: 'qwen2',
  Qwen3ForCausalLM: 'qwen3',
  SmolLM3ForCausalLM: 'smollm3',
  Phi3ForCausalLM: 'phi3',
  Olmo2ForCausalLM: 'olmo2',
};

type Config = Record<string, unknown>;

const familyConfig = (architecture: string, change: Config = {}): Config => ({
  ...smallConfig(),
  architectures: [architecture],
  model_type: modelTypes[architecture],
  ...change,
});
/** Says only what every config says. */
const shortConfig = (architecture: string, change: Config = {}): Config => {
  const { vocab_size, hidden_size, intermediate_size, num_hidden_layers } = smallConfig();
  return {
    architectures: [architecture],
    vocab_size,
    hidden_size,
    intermediate_size,
    num_hidden_layers,
    num_attention_heads: 2,
    max_position_embeddings: 64,
    ...change,
  };
};
const plan = (config: unknown): Plan => decoderPlan(parseModelConfig(config), 'bf16');
const opsOf = <K extends Op['kind']>(config: unknown, kind: K): Extract<Op, { kind: K }>[] =>
  plan(config).ops.filter((op): op is Extract<Op, { kind: K }> => op.kind === kind);
const windows = (config: unknown): (number | undefined)[] => opsOf(config, 'attention').map((op) => op.windowSize);
const badConfig = (message: RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_CONFIG', message: expect.stringMatching(message) });

describe('a family', () => {
  it('is one of those whose defaults stand below', () => {
    expect(supportedArchitectures).toEqual(Object.keys(modelTypes));
  });

  it.each<[string, Config, Config]>([
    ['LlamaForCausalLM', {}, { normEpsilon: 1e-6, theta: 10000, head: 'own', kvHeadCount: 2, headSize: 8 }],
    [
      'MistralForCausalLM',
      { num_attention_heads: 16, hidden_size: 64 },
      { normEpsilon: 1e-6, theta: 10000, head: 'own', kvHeadCount: 8, headSize: 4 },
    ],
    [
      'Qwen2ForCausalLM',
      { num_attention_heads: 32, hidden_size: 128 },
      { normEpsilon: 1e-6, theta: 10000, head: 'own', kvHeadCount: 32, headSize: 4 },
    ],
    [
      'Qwen3ForCausalLM',
      { num_attention_heads: 32 },
      { normEpsilon: 1e-6, theta: 10000, head: 'own', kvHeadCount: 32, headSize: 128 },
    ],
    [
      'SmolLM3ForCausalLM',
      { num_attention_heads: 4 },
      { normEpsilon: 1e-6, theta: 2000000, head: 'tied', kvHeadCount: 4, headSize: 4 },
    ],
    ['Phi3ForCausalLM', {}, { normEpsilon: 1e-5, theta: 10000, head: 'own', kvHeadCount: 2, headSize: 8 }],
    ['Olmo2ForCausalLM', {}, { normEpsilon: 1e-5, theta: 10000, head: 'own', kvHeadCount: 2, headSize: 8 }],
  ])('%s has the defaults of transformers where its config says nothing', (architecture, change, expected) => {
    const { rope, normEpsilon, head, kvHeadCount, headSize } = parseModelConfig(shortConfig(architecture, change));
    expect({ normEpsilon, theta: rope.theta, head, kvHeadCount, headSize }).toEqual(expected);
    expect(rope.type).toBe('default');
  });

  it.each(supportedArchitectures)('%s has as many key and value heads as heads where its config says null', (name) => {
    expect(parseModelConfig(familyConfig(name, { num_key_value_heads: null })).kvHeadCount).toBe(2);
  });

  it.each<[string, [boolean, boolean, boolean], [boolean, boolean, boolean]]>([
    ['LlamaForCausalLM', [false, false, false], [true, true, true]],
    ['MistralForCausalLM', [false, false, false], [false, false, false]],
    ['Qwen2ForCausalLM', [true, false, false], [true, false, false]],
    ['Qwen3ForCausalLM', [false, false, false], [true, true, false]],
    ['SmolLM3ForCausalLM', [false, false, false], [true, true, true]],
    ['Phi3ForCausalLM', [false, false, false], [false, false, false]],
    ['Olmo2ForCausalLM', [false, false, false], [true, true, false]],
  ])('%s has biases where its transformers class has them', (architecture, unsaid, asked) => {
    const biases = (change: Config): boolean[] => {
      const { attention_bias, mlp_bias, ...silent } = familyConfig(architecture);
      const linears = opsOf({ ...silent, ...change }, 'linear').slice(0, 7);
      return linears.map((op) => op.bias !== undefined);
    };
    const all = ([qkv, output, feedForward]: [boolean, boolean, boolean]): boolean[] => [
      qkv,
      qkv,
      qkv,
      output,
      feedForward,
      feedForward,
      feedForward,
    ];
    expect(biases({})).toEqual(all(unsaid));
    expect(biases({ attention_bias: true, mlp_bias: true })).toEqual(all(asked));
  });

  it('Qwen 3 norms each head of queries and keys before they are rotated', () => {
    const { ops, weights } = plan(familyConfig('Qwen3ForCausalLM'));
    const named = ops.map((op) =>
      op.kind === 'rmsNorm' ? `${weights[op.weight]!.name} x${op.groupCount ?? 1}` : op.kind,
    );
    expect(named.slice(1, 11)).toEqual([
      'model.layers.0.input_layernorm.weight x1',
      'linear',
      'linear',
      'linear',
      'model.layers.0.self_attn.q_norm.weight x2',
      'model.layers.0.self_attn.k_norm.weight x1',
      'rope',
      'rope',
      'kvWrite',
      'attention',
    ]);
    const norm = weights.find(({ name }) => name === 'model.layers.0.self_attn.q_norm.weight');
    expect(norm).toEqual({ kind: 'vector', name: norm!.name, size: 8, role: 'norm' });
  });

  it('OLMo 2 norms whole queries and keys, and what its blocks give instead of what they take', () => {
    const { ops, weights, buffers } = plan(familyConfig('Olmo2ForCausalLM'));
    const described = ops.map((op) =>
      op.kind === 'rmsNorm'
        ? `${weights[op.weight]!.name.replace('model.layers.0.', '')} of ${buffers[op.input]!.name} to ${buffers[op.output]!.name}`
        : op.kind,
    );
    expect(described.slice(0, 19)).toEqual([
      'embed',
      'linear',
      'linear',
      'linear',
      'self_attn.q_norm.weight of query to query',
      'self_attn.k_norm.weight of key to key',
      'rope',
      'rope',
      'kvWrite',
      'attention',
      'linear',
      'post_attention_layernorm.weight of residual to residual',
      'add',
      'linear',
      'linear',
      'swiglu',
      'linear',
      'post_feedforward_layernorm.weight of residual to residual',
      'add',
    ]);
    expect(ops.slice(1, 4).map((op) => op.kind === 'linear' && buffers[op.input]!.name)).toEqual(
      Array(3).fill('hidden'),
    );
    expect(weights.find(({ name }) => name.endsWith('0.self_attn.q_norm.weight'))).toMatchObject({ size: 16 });
    expect(weights.find(({ name }) => name.endsWith('0.self_attn.k_norm.weight'))).toMatchObject({ size: 8 });
  });

  it('Phi-3 refuses every rope but the default one, by name', () => {
    for (const type of ['longrope', 'su', 'yarn', 'linear']) {
      const config = familyConfig('Phi3ForCausalLM', { rope_parameters: undefined, rope_scaling: { type, factor: 2 } });
      expect(() => parseModelConfig(config)).toThrow(
        badConfig(new RegExp(`rope type "${type}" is not supported; supported are default$`)),
      );
    }
  });
});

describe('layers without rope', () => {
  const ropes = (change: Config): boolean[] => {
    const config = familyConfig('SmolLM3ForCausalLM', { num_hidden_layers: 8, ...change });
    return parseModelConfig(config).layers.map(({ positions }) => positions === 'rope');
  };

  it('are every fourth of SmolLM 3 where its config says nothing', () => {
    expect(ropes({})).toEqual([true, true, true, false, true, true, true, false]);
    expect(ropes({ no_rope_layers: null, no_rope_layer_interval: null })).toEqual(ropes({}));
  });

  it('come every so many layers, or as they are listed, where 1 means rotated', () => {
    expect(ropes({ no_rope_layer_interval: 3 })).toEqual([true, true, false, true, true, false, true, true]);
    const listed = [1, 0, 0, 1, true, false, 1, 1, 0, 0];
    expect(ropes({ no_rope_layers: listed })).toEqual([true, false, false, true, true, false, true, true]);
    expect(() => ropes({ no_rope_layers: [1, 1, 1] })).toThrow(badConfig(/no_rope_layers has 3 entries for 8 layers/));
  });

  it('have no rope in the plan', () => {
    const config = familyConfig('SmolLM3ForCausalLM', { no_rope_layers: [0, 1] });
    const kinds = plan(config).ops.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'rope')).toHaveLength(2);
    expect(kinds.indexOf('rope')).toBeGreaterThan(kinds.indexOf('attention'));
  });
});

describe('sliding windows', () => {
  const four = (architecture: string, change: Config): Config =>
    familyConfig(architecture, { num_hidden_layers: 4, max_position_embeddings: 8192, ...change });
  const none = Array(4).fill(undefined);

  it('of a Mistral hold for all layers: as given, none for null, 4096 where absent', () => {
    expect(windows(four('MistralForCausalLM', { sliding_window: 24 }))).toEqual([24, 24, 24, 24]);
    expect(windows(four('MistralForCausalLM', { sliding_window: null }))).toEqual(none);
    expect(windows(four('MistralForCausalLM', {}))).toEqual([4096, 4096, 4096, 4096]);
  });

  it('of a Phi-3 hold for all layers, none where absent', () => {
    expect(windows(four('Phi3ForCausalLM', { sliding_window: 2047 }))).toEqual([2047, 2047, 2047, 2047]);
    expect(windows(four('Phi3ForCausalLM', {}))).toEqual(none);
  });

  it.each(['Qwen2ForCausalLM', 'Qwen3ForCausalLM'])(
    'of %s are those of its upper layers, where switched on',
    (name) => {
      expect(windows(four(name, { sliding_window: 24, max_window_layers: 1 }))).toEqual(none);
      expect(windows(four(name, { use_sliding_window: true, sliding_window: 24 }))).toEqual(none);
      const on = { use_sliding_window: true, max_window_layers: 1 };
      expect(windows(four(name, { ...on, sliding_window: 24 }))).toEqual([undefined, 24, 24, 24]);
      expect(windows(four(name, on))).toEqual([undefined, 4096, 4096, 4096]);
      expect(windows(four(name, { ...on, sliding_window: null }))).toEqual(none);
    },
  );

  it('of a SmolLM 3 are those of its layers without rope, where switched on', () => {
    const layers = { no_rope_layers: [1, 0, 1, 0], sliding_window: 24 };
    expect(windows(four('SmolLM3ForCausalLM', layers))).toEqual(none);
    expect(windows(four('SmolLM3ForCausalLM', { ...layers, use_sliding_window: true }))).toEqual([
      undefined,
      24,
      undefined,
      24,
    ]);
  });

  it('are as layer_types says where it is there', () => {
    const layer_types = ['sliding_attention', 'full_attention', 'full_attention', 'sliding_attention'];
    const on = { use_sliding_window: true, sliding_window: 24, max_window_layers: 1, layer_types };
    for (const name of ['Qwen2ForCausalLM', 'Qwen3ForCausalLM', 'SmolLM3ForCausalLM']) {
      expect(windows(four(name, on))).toEqual([24, undefined, undefined, 24]);
      expect(() => windows(four(name, { ...on, use_sliding_window: false }))).toThrow(
        badConfig(/layer_types has sliding_attention, but there is no sliding window/),
      );
    }
  });

  it('that layer_types contradicts are refused in families that have one for all', () => {
    const mixed = ['sliding_attention', 'full_attention', 'full_attention', 'full_attention'];
    const full = Array(4).fill('full_attention');
    for (const name of ['MistralForCausalLM', 'Phi3ForCausalLM']) {
      for (const layer_types of [mixed, full]) {
        expect(() => windows(four(name, { sliding_window: 24, layer_types }))).toThrow(
          badConfig(/layer_types do not agree with sliding_window 24/),
        );
      }
    }
    for (const name of ['LlamaForCausalLM', 'Olmo2ForCausalLM']) {
      expect(windows(four(name, { layer_types: full }))).toEqual(none);
      expect(() => windows(four(name, { layer_types: mixed }))).toThrow(badConfig(/there is no sliding window/));
    }
  });

  it('of layers of an unknown type, or of too few, are refused', () => {
    const chunked = Array(4).fill('chunked_attention');
    expect(() => windows(four('Qwen2ForCausalLM', { layer_types: chunked }))).toThrow(
      badConfig(/layer type "chunked_attention" is not supported; supported are full_attention, sliding_attention/),
    );
    expect(() => windows(four('Qwen2ForCausalLM', { layer_types: ['full_attention'] }))).toThrow(
      badConfig(/layer_types has 1 entries for 4 layers/),
    );
  });

  it('that are never shorter than the context are not in the plan', () => {
    expect(windows(four('MistralForCausalLM', { sliding_window: 8192 }))).toEqual(none);
    expect(windows(four('MistralForCausalLM', { sliding_window: 8191 }))).toEqual(Array(4).fill(8191));
    const { architecture, ...shape } = plan(familyConfig('MistralForCausalLM', { sliding_window: 64 }));
    expect(architecture).toBe('mistral');
    expect(shape).toEqual({ ...plan(smallConfig()), architecture: undefined });
  });

  it('of a Llama or an OLMo 2, whose classes have none, are refused unless they change nothing', () => {
    for (const name of ['LlamaForCausalLM', 'Olmo2ForCausalLM']) {
      expect(() => windows(four(name, { sliding_window: 24 }))).toThrow(badConfig(/sliding_window 24/));
      expect(windows(four(name, { sliding_window: 8192 }))).toEqual(none);
      expect(windows(four(name, { sliding_window: null }))).toEqual(none);
    }
  });
});

describe('a damaged config of any family', () => {
  const odd = [
    null,
    true,
    -1,
    0,
    0.5,
    1,
    3,
    7,
    64,
    1e9,
    2 ** 53,
    1e308,
    '',
    'gelu',
    [],
    [1],
    [0, 1],
    {},
    { a: { b: 1 } },
  ];
  const keys = [
    ...Object.keys(smallConfig()),
    ...['rope_scaling', 'rope_theta', 'sliding_window', 'use_sliding_window', 'max_window_layers', 'layer_types'],
    ...['no_rope_layers', 'no_rope_layer_interval', 'original_max_position_embeddings', 'partial_rotary_factor'],
  ];

  it('gives a plan or a StetError', () => {
    const outcomes = new Map<string, number>();
    const change = fc.dictionary(fc.constantFrom(...keys), fc.constantFrom<unknown>(...odd), {
      minKeys: 1,
      maxKeys: 3,
    });
    fc.assert(
      fc.property(fc.constantFrom(...supportedArchitectures), change, (architecture, changes) => {
        let outcome = 'works';
        try {
          plan(familyConfig(architecture, changes));
        } catch (error) {
          if (!isStetError(error)) throw error;
          outcome = error.code;
        }
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }),
      { numRuns: 3000, seed: 5 },
    );
    expect(outcomes.get('works')).toBeGreaterThan(200);
    expect(outcomes.get('STET_ERR_BAD_CONFIG')).toBeGreaterThan(300);
  });
});

describe.skipIf(!hasSharedModels)(`configs of tiny models${needsSharedModels}`, () => {
  it.each([
    'llama',
    'llama3-rope-bias',
    'llama-linear-rope',
    'llama-yarn',
    'llama-mha-odd',
    'mistral-sliding',
    'qwen2',
    'qwen3',
    'smollm3',
    'phi3',
    'olmo2',
  ])('%s gives the same plan in the old style', (name) => {
    const modern = readSharedJson<Config>('tiny', name, 'config.json');
    const { rope_parameters, dtype, layer_types, head_dim, ...rest } = modern;
    const { rope_theta, rope_type, partial_rotary_factor, ...scaling } = rope_parameters as Config;
    const derived = (modern.hidden_size as number) / (modern.num_attention_heads as number);
    const old = {
      ...rest,
      // Absent where it follows from the other sizes.
      ...(head_dim !== derived && head_dim !== undefined && { head_dim }),
      torch_dtype: dtype,
      rope_theta,
      rope_scaling: rope_type === 'default' ? null : { type: rope_type, ...scaling },
    };
    expect(plan(old)).toEqual(plan(modern));
  });
});
