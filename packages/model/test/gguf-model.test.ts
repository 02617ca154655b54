import type { Plan, WeightData } from '@stet/backend';
import { type FileSource, type LoadedModel, loadModel, memorySource } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { loadGguf } from '../src/gguf/load-gguf.js';
import { convert, type FamilyCase, factorsCase, familyCases, familyTensors } from './support/gguf-families.js';
import { type GgufContents, type GgufTensor, gguf, type TypedValue } from './support/gguf-writer.js';
import { jsonBytes, safetensors } from './support/small-model.js';

const FILE = 'small.gguf';
const WITHOUT_TEXT = { tokenizer: 'none' } as const;

const llamaCase = familyCases[0]!;

function hugging(family: FamilyCase): Promise<LoadedModel> {
  const files = {
    'config.json': jsonBytes(family.config),
    'model.safetensors': safetensors(familyTensors(family.config)),
  };
  return loadModel(memorySource(files), WITHOUT_TEXT);
}

const load = (contents: GgufContents): Promise<LoadedModel> =>
  loadGguf(memorySource({ [FILE]: gguf(contents) }), FILE, WITHOUT_TEXT);

const converted = (family: FamilyCase = llamaCase): GgufContents =>
  convert(family, familyTensors(family.config), 'BF16');

/** The Llama with some keys of its architecture changed or, where undefined, taken away. */
function withKeys(
  keys: Readonly<Record<string, TypedValue | undefined>>,
  family: FamilyCase = llamaCase,
): GgufContents {
  const contents = converted(family);
  const metadata = new Map(Object.entries(contents.metadata));
  for (const [key, value] of Object.entries(keys)) {
    const name = key.includes('general.') ? key : `${family.architecture}.${key}`;
    if (value) metadata.set(name, value);
    else metadata.delete(name);
  }
  return { ...contents, metadata: Object.fromEntries(metadata) };
}

/** All bytes of a weight in one piece, which is quicker to compare than arrays of numbers are. */
function bytesOf(data: WeightData): Buffer {
  const arrays = Object.values(data).filter((part) => typeof part !== 'string');
  return Buffer.concat(arrays.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)));
}

async function expectSameWeights(model: LoadedModel, expected: LoadedModel): Promise<void> {
  for (const spec of expected.plan.weights) {
    const [bytes, expectedBytes] = [await model.weights.read(spec), await expected.weights.read(spec)].map(bytesOf);
    expect(expectedBytes!.length).toBeGreaterThan(0);
    expect(Buffer.compare(bytes!, expectedBytes!), spec.name).toBe(0);
  }
}

/** Mistral's files call themselves Llama. */
const asLlama = (plan: Plan): Plan => (plan.architecture === 'mistral' ? { ...plan, architecture: 'llama' } : plan);

describe('a small model in GGUF', () => {
  it.each(familyCases)('of $title has the plan and the weights that it has in Hugging Face layout', async (family) => {
    const expected = await hugging(family);
    for (const matrices of ['BF16', 'F32'] as const) {
      const model = await load(convert(family, familyTensors(family.config), matrices));
      expect(model.plan).toEqual(asLlama(expected.plan));
      await expectSameWeights(model, expected);
      expect(model.parameterCount).toBe(expected.parameterCount);
      await model.close();
    }
    await expected.close();
  });

  it('in q8 has the weights that it has in Hugging Face layout', async () => {
    for (const family of familyCases) {
      const files = {
        'config.json': jsonBytes(family.config),
        'model.safetensors': safetensors(familyTensors(family.config)),
      };
      const options = { ...WITHOUT_TEXT, format: 'q8' } as const;
      const expected = await loadModel(memorySource(files), options);
      const model = await loadGguf(memorySource({ [FILE]: gguf(converted(family)) }), FILE, options);
      await expectSameWeights(model, expected);
    }
  });

  it.each(familyCases.filter(({ architecture }) => architecture !== 'phi3'))(
    'of $title may have queries, keys and values in one tensor',
    async (family) => {
      const contents = converted(family);
      const part = (layer: number, name: string): GgufTensor | undefined =>
        contents.tensors.find((tensor) => tensor.name === `blk.${layer}.${name}`);
      const fused = Array.from({ length: family.config.num_hidden_layers }, (_, layer) =>
        ['weight', 'bias'].flatMap((kind): GgufTensor[] => {
          const parts = ['attn_q', 'attn_k', 'attn_v'].map((name) => part(layer, `${name}.${kind}`));
          if (!parts.every((tensor) => tensor !== undefined)) return [];
          return [
            {
              name: `blk.${layer}.attn_qkv.${kind}`,
              type: parts[0]!.type,
              shape: [parts.reduce((sum, tensor) => sum + tensor.shape[0]!, 0), ...parts[0]!.shape.slice(1)],
              bytes: Uint8Array.from(parts.flatMap((tensor) => [...tensor.bytes])),
            },
          ];
        }),
      ).flat();
      const others = contents.tensors.filter(({ name }) => !/attn_[qkv]\./.test(name));
      const model = await load({ ...contents, tensors: [...others, ...fused] });
      await expectSameWeights(model, await hugging(family));
    },
  );

  it('divides the frequencies of its rope by the factors of the tensor rope_freqs', async () => {
    const model = await load(converted(factorsCase));
    const plain = await load(converted());
    const base = plain.plan.ropes[0]!.inverseFrequencies;
    expect(model.plan.ropes[0]!.inverseFrequencies).toEqual(base.map((value, i) => value / factorsCase.factors[i]!));
    expect(model.rope).toEqual({ type: 'factors', theta: 10000, factors: factorsCase.factors });
    expect({ ...model.plan, ropes: [] }).toEqual({ ...plain.plan, ropes: [] });
  });

  it('divides them by a linear factor as well', async () => {
    const contents = withKeys({ 'rope.scaling.factor': ['f32', 4] }, factorsCase);
    expect((await load(contents)).rope).toMatchObject({ factors: factorsCase.factors.map((factor) => 4 * factor) });
  });

  it('counts its vocabulary by its embedding where the metadata do not', async () => {
    expect((await load(withKeys({ vocab_size: undefined }))).plan.vocabSize).toBe(67);
  });

  it('may give counts for each layer, as long as they are the same', async () => {
    const model = await load(
      withKeys({
        feed_forward_length: [['u32'], [40, 40, 40, 40, 40]],
        'attention.head_count_kv': [['u64'], [2n, 2n, 2n, 2n, 2n]],
      }),
    );
    expect(model.plan).toEqual((await load(converted())).plan);
  });

  it('says its name, size, types and the ids that begin and end a text', async () => {
    const contents = converted();
    const bytes = gguf({
      ...contents,
      metadata: {
        ...contents.metadata,
        'tokenizer.ggml.bos_token_id': ['u32', 5],
        'tokenizer.ggml.eos_token_id': ['u32', 9],
        'tokenizer.ggml.eot_token_id': ['u32', 7],
        'general.sampling.temp': ['f32', 0.6],
        'general.sampling.top_k': ['i32', 20],
        'general.sampling.top_p': ['f32', 0.95],
        'general.sampling.min_p': ['f32', 0.05],
      },
    });
    const progress: number[][] = [];
    const model = await loadGguf(memorySource({ [FILE]: bytes }), FILE, {
      ...WITHOUT_TEXT,
      onProgress: (done, total) => progress.push([done, total]),
    });
    expect(model).toMatchObject({
      name: 'small',
      bosId: 5,
      eosIds: [7, 9],
      contextLength: 128,
      generationDefaults: { temperature: 0.6, topK: 20, topP: 0.95, minP: 0.05 },
      storage: { files: [FILE], bytes: bytes.length },
    });
    expect(model.storage.tensorTypes.map(({ type, tensorCount }) => [type, tensorCount])).toEqual([
      ['BF16', 37],
      ['F32', 11],
    ]);
    expect(progress.at(-1)).toEqual([bytes.length, bytes.length]);
  });

  it('uses fewer positions where the caller asks for it', async () => {
    const source = memorySource({ [FILE]: gguf(converted()) });
    expect((await loadGguf(source, FILE, { ...WITHOUT_TEXT, contextLength: 16 })).contextLength).toBe(16);
  });

  it('closes its source when loading is aborted', async () => {
    const controller = new AbortController();
    const source = memorySource({ [FILE]: gguf(converted()) });
    let closed = 0;
    const counting: FileSource = {
      ...source,
      read: (name, start, end) => {
        controller.abort();
        return source.read(name, start, end);
      },
      close: async () => void closed++,
    };
    const options = { ...WITHOUT_TEXT, signal: controller.signal };
    await expect(loadGguf(counting, FILE, options)).rejects.toMatchObject({ code: 'STET_ERR_ABORTED' });
    expect(closed).toBe(1);
  });
});

describe('a GGUF file', () => {
  const refusal = (code: string, message: RegExp) =>
    expect.objectContaining({ code, message: expect.stringMatching(message) });

  it.each<[string, RegExp, Readonly<Record<string, TypedValue | undefined>>]>([
    ['without a layer count', /small\.gguf: llama\.block_count is missing/, { block_count: undefined }],
    ['without a context', /llama\.context_length is missing/, { context_length: undefined }],
    ['without a width', /llama\.embedding_length is missing/, { embedding_length: undefined }],
    ['without heads', /llama\.attention\.head_count is missing/, { 'attention.head_count': undefined }],
    ['without a feed-forward width', /llama\.feed_forward_length is missing/, { feed_forward_length: undefined }],
    ['without an epsilon', /layer_norm_rms_epsilon is missing/, { 'attention.layer_norm_rms_epsilon': undefined }],
    [
      'with a layer count of 2^32',
      /block_count is 4294967295, expected a whole number from 1/,
      { block_count: ['u32', 4294967295] },
    ],
    ['with a layer count of zero', /block_count is 0, expected/, { block_count: ['u32', 0] }],
    ['with a layer count that is text', /block_count is "5", expected/, { block_count: ['string', '5'] }],
    [
      'with a context of 2^63',
      /context_length is 9223372036854775808, expected/,
      { context_length: ['u64', 2n ** 63n] },
    ],
    ['with a fraction of heads', /head_count is 4\.5, expected/, { 'attention.head_count': ['f32', 4.5] }],
    [
      'with layers that differ',
      /feed_forward_length differs from layer to layer/,
      { feed_forward_length: [['u32'], [40, 40, 40, 40, 48]] },
    ],
    ['with a count for too few layers', /has 2 entries for 5 layers/, { feed_forward_length: [['u32'], [40, 40]] }],
    [
      'with counts that are texts',
      /feed_forward_length is "40", expected/,
      { feed_forward_length: [['string'], ['40', '40', '40', '40', '40']] },
    ],
    [
      'with heads that cannot share',
      /4 heads cannot share 3 key and value heads/,
      { 'attention.head_count_kv': ['u32', 3] },
    ],
    [
      'with values of another size',
      /attention\.value_length is 8, which is not supported/,
      { 'attention.value_length': ['u32', 8] },
    ],
    [
      'with a rope of part of a head',
      /rope\.dimension_count is 6, which is not supported/,
      { 'rope.dimension_count': ['u32', 6] },
    ],
    ['with a rope base of 1', /rope\.freq_base is 1, it must be above 1/, { 'rope.freq_base': ['f32', 1] }],
    [
      'with a rope base of NaN',
      /rope\.freq_base is null, expected a number/,
      { 'rope.freq_base': ['f32', Number.NaN] },
    ],
    [
      'with the rope type longrope',
      /rope\.scaling\.type is "longrope", which is not supported; supported are none, linear, yarn/,
      { 'rope.scaling.type': ['string', 'longrope'] },
    ],
    [
      'with a factor on attention',
      /rope\.scaling\.attn_factor is 2, which/,
      { 'rope.scaling.attn_factor': ['f32', 2] },
    ],
    ['with experts', /llama\.expert_count is 8, which is not supported/, { expert_count: ['u32', 8] }],
    ['with a scale of logits', /llama\.logit_scale is 8, which/, { logit_scale: ['f32', 8] }],
    ['with a scale of attention', /attention\.scale is 0\.5, which/, { 'attention.scale': ['f32', 0.5] }],
    ['with capped logits', /final_logit_softcapping is 30, which/, { final_logit_softcapping: ['f32', 30] }],
    ['with attention in both directions', /attention\.causal is false, which/, { 'attention.causal': ['bool', false] }],
    [
      'with a key that nobody knows',
      /llama\.attention\.new_idea is not supported: it could change what the model computes/,
      { 'attention.new_idea': ['u32', 1] },
    ],
    ['with a bad temperature', /general\.sampling\.temp is no number/, { 'general.sampling.temp': ['string', 'hot'] }],
  ])('%s is refused', async (_what, message, keys) => {
    await expect(load(withKeys(keys))).rejects.toEqual(refusal('STET_ERR_BAD_CONFIG', message));
  });

  it.each<[string, Readonly<Record<string, TypedValue>>]>([
    ['no experts', { expert_count: ['u32', 0], expert_used_count: ['u32', 0] }],
    ['scales of one', { logit_scale: ['f32', 1], residual_scale: ['f32', 1], embedding_scale: ['f32', 0] }],
    ['the scale of attention that it has anyway', { 'attention.scale': ['f32', 1 / Math.sqrt(12)] }],
    ['causal attention', { 'attention.causal': ['bool', true] }],
    ['the layout that it was converted from', { tensor_data_layout: ['string', 'Meta AI original pth'] }],
    ['a scaling of none', { 'rope.scaling.type': ['string', 'none'], 'rope.scaling.factor': ['f32', 8] }],
    ['a linear factor of one under its old name', { 'rope.scale_linear': ['f32', 1] }],
    ['a window as long as its context', { 'attention.sliding_window': ['u32', 128] }],
  ])('that says it has %s is the model that it is without', async (_what, keys) => {
    expect((await load(withKeys(keys))).plan).toEqual((await load(converted())).plan);
  });

  it('takes a linear factor under its old name', async () => {
    const model = await load(withKeys({ 'rope.scale_linear': ['f32', 4] }));
    expect(model.rope).toEqual({ type: 'linear', theta: 10000, factor: 4 });
  });

  it.each(['qwen2', 'qwen3', 'smollm3', 'olmo2'])('of %s with a window is refused', async (architecture) => {
    const family = familyCases.find((entry) => entry.architecture === architecture)!;
    await expect(load(withKeys({ 'attention.sliding_window': ['u32', 24] }, family))).rejects.toEqual(
      refusal('STET_ERR_BAD_CONFIG', /attention\.sliding_window is 24; windows of .* are not supported/),
    );
  });

  it.each<[string, TypedValue | undefined]>([
    ['names no architecture', undefined],
    ['has the architecture "gemma3"', ['string', 'gemma3']],
    ['has the architecture "__proto__"', ['string', '__proto__']],
    ['has the architecture 7', ['u32', 7]],
  ])('that %s is refused', async (found, value) => {
    await expect(load(withKeys({ 'general.architecture': value }))).rejects.toEqual(
      refusal(
        'STET_ERR_UNKNOWN_ARCHITECTURE',
        new RegExp(`^small.gguf ${found}; supported are llama, qwen2, qwen3, smollm3, phi3, olmo2$`),
      ),
    );
  });

  const extra = (name: string, size = 6, type = 0): GgufTensor => ({
    name,
    type,
    shape: [size],
    bytes: new Uint8Array(new Float32Array(size).fill(2).buffer),
  });
  const withTensors = (...tensors: readonly GgufTensor[]): GgufContents => {
    const contents = converted();
    const names = new Set(tensors.map(({ name }) => name));
    return { ...contents, tensors: [...contents.tensors.filter(({ name }) => !names.has(name)), ...tensors] };
  };

  it.each<[string, string, RegExp, GgufContents]>([
    [
      'a tensor of longrope',
      'BAD_CONFIG',
      /the rope type longrope \(tensor rope_factors_long\.weight\) is not supported/,
      withTensors(extra('rope_factors_long.weight')),
    ],
    [
      'too few factors of the rope',
      'BAD_CONFIG',
      /rope_freqs\.weight has 5 factors for heads of 12/,
      withTensors(extra('rope_freqs.weight', 5)),
    ],
    [
      'factors of zero',
      'BAD_GGUF',
      /has a factor in rope_freqs\.weight that is not above zero/,
      withTensors({ ...extra('rope_freqs.weight'), bytes: new Uint8Array(24) }),
    ],
    [
      'factors of another type',
      'BAD_GGUF',
      /rope_freqs\.weight that is not a vector/,
      withTensors(extra('rope_freqs.weight', 6, 26)),
    ],
    [
      'a tensor that it has no use for',
      'BAD_TENSOR',
      /has no use for: "blk\.0\.attn_q\.scale"/,
      withTensors(extra('blk.0.attn_q.scale')),
    ],
    [
      'a bias of one kind in a later layer alone',
      'BAD_TENSOR',
      /has no use for: "blk\.3\.attn_q\.bias"/,
      withTensors(extra('blk.3.attn_q.bias', 48)),
    ],
    ['a bias of queries alone', 'MISSING_TENSOR', /blk\.0\.attn_k\.bias/, withTensors(extra('blk.0.attn_q.bias', 48))],
    [
      'a norm of another size',
      'BAD_TENSOR',
      /output_norm\.weight has the shape \[6\], expected \[48\]/,
      withTensors(extra('output_norm.weight')),
    ],
    [
      'a type that is not supported',
      'BAD_TENSOR',
      /output_norm\.weight has the type I32; supported are F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, MXFP4/,
      withTensors(extra('output_norm.weight', 48, 26)),
    ],
  ])('with %s is refused', async (_what, code, message, contents) => {
    await expect(load(contents)).rejects.toEqual(refusal(`STET_ERR_${code}`, message));
  });

  it('without a tensor is refused', async () => {
    const contents = converted();
    const tensors = contents.tensors.filter(({ name }) => name !== 'blk.2.ffn_down.weight');
    await expect(load({ ...contents, tensors })).rejects.toEqual(
      refusal('STET_ERR_MISSING_TENSOR', /blk\.2\.ffn_down\.weight/),
    );
  });

  it('may have the frequencies of its rope in each layer, as old ones do', async () => {
    const model = await load(withTensors(extra('blk.0.attn_rot_embd.weight'), extra('blk.1.attn_rot_embd.weight')));
    await expectSameWeights(model, await load(converted()));
  });
});
