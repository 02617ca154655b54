/** A byte-level tokenizer.json of 256 bytes (id = byte), two special tokens and one added token that is not special. */
export function byteTokenizerJson() {
  const vocab: Record<string, number> = {};
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    vocab[String.fromCharCode(printable ? byte : next++)] = byte;
  }
  const added = (id: number, content: string, special: boolean) => ({
    id,
    content,
    special,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  });
  return {
    version: '1.0',
    added_tokens: [added(256, '<|begin|>', true), added(257, '<|end|>', true), added(258, '<not é special>', false)],
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: { type: 'BPE', unk_token: null, byte_fallback: false, vocab, merges: [] as [string, string][] },
  };
}

/** A config.json in the new style; the model has 2 layers and 259 ids. */
export function smallConfig() {
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    dtype: 'bfloat16',
    vocab_size: 259,
    hidden_size: 16,
    intermediate_size: 24,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: 8,
    max_position_embeddings: 64,
    rms_norm_eps: 1e-5,
    hidden_act: 'silu',
    attention_bias: false,
    mlp_bias: false,
    tie_word_embeddings: true,
    rope_parameters: { rope_type: 'default', rope_theta: 10000 },
    bos_token_id: 256,
    eos_token_id: 257,
  };
}

/** Name and shape of each tensor of {@link smallConfig}. */
export function smallTensors(config = smallConfig()): [name: string, shape: number[]][] {
  const { hidden_size: hidden, intermediate_size: intermediate, head_dim: head } = config;
  const query = config.num_attention_heads * head;
  const key = config.num_key_value_heads * head;
  const tensors: [string, number[]][] = [['model.embed_tokens.weight', [config.vocab_size, hidden]]];
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const prefix = `model.layers.${layer}`;
    tensors.push(
      [`${prefix}.input_layernorm.weight`, [hidden]],
      [`${prefix}.self_attn.q_proj.weight`, [query, hidden]],
      [`${prefix}.self_attn.k_proj.weight`, [key, hidden]],
      [`${prefix}.self_attn.v_proj.weight`, [key, hidden]],
      [`${prefix}.self_attn.o_proj.weight`, [hidden, query]],
      [`${prefix}.post_attention_layernorm.weight`, [hidden]],
      [`${prefix}.mlp.gate_proj.weight`, [intermediate, hidden]],
      [`${prefix}.mlp.up_proj.weight`, [intermediate, hidden]],
      [`${prefix}.mlp.down_proj.weight`, [hidden, intermediate]],
    );
  }
  tensors.push(['model.norm.weight', [hidden]]);
  return tensors;
}

export interface TensorData {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** A tensor of BF16 values that depend on its name. */
export function smallTensor(name: string, shape: readonly number[]): TensorData {
  const length = shape.reduce((product, size) => product * size, 1);
  let seed = [...name].reduce((hash, character) => Math.imul(hash ^ character.charCodeAt(0), 0x01000193), 0x811c9dc5);
  const bits = Uint16Array.from({ length }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
    return (seed & 0x8000) | (0x3c00 + ((seed >>> 16) & 0x1ff));
  });
  return { name, dtype: 'BF16', shape, bytes: new Uint8Array(bits.buffer) };
}

/** The bytes of a safetensors file. */
export function safetensors(tensors: readonly TensorData[], metadata?: unknown): Uint8Array {
  const header: Record<string, unknown> = metadata === undefined ? {} : { __metadata__: metadata };
  let offset = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  return safetensorsOf(JSON.stringify(header), ...tensors.map(({ bytes }) => bytes));
}

/** A safetensors file with any header at all; `length` overrides what the file says its header's length is. */
export function safetensorsWith(header: string, dataBytes: number, length?: bigint): Uint8Array {
  return safetensorsOf(header, new Uint8Array(dataBytes), length);
}

function safetensorsOf(header: string, ...rest: (Uint8Array | bigint | undefined)[]): Uint8Array {
  const text = new TextEncoder().encode(header);
  const data = rest.filter((part) => part instanceof Uint8Array);
  const length = rest.find((part) => typeof part === 'bigint') ?? BigInt(text.length);
  const file = new Uint8Array(8 + text.length + data.reduce((sum, part) => sum + part.length, 0));
  new DataView(file.buffer).setBigUint64(0, length, true);
  file.set(text, 8);
  let offset = 8 + text.length;
  for (const part of data) {
    file.set(part, offset);
    offset += part.length;
  }
  return file;
}

export function jsonBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** All files of a small model that loads. */
export function smallModelFiles(): Record<string, Uint8Array> {
  return {
    'config.json': jsonBytes(smallConfig()),
    'generation_config.json': jsonBytes({ eos_token_id: [257, 10], temperature: 0.6, top_p: 0.9, do_sample: true }),
    'tokenizer.json': jsonBytes(byteTokenizerJson()),
    'tokenizer_config.json': jsonBytes({
      bos_token: '<|begin|>',
      eos_token: { content: '<|end|>' },
      add_bos_token: true,
      chat_template: '{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}',
    }),
    'model.safetensors': safetensors(smallTensors().map(([name, shape]) => smallTensor(name, shape))),
  };
}
