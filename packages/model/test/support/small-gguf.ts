import type { GgufValue } from '../../src/gguf/metadata-value.js';
import { convert, type FamilyCase, familyCases, familyTensors } from './gguf-families.js';
import { byteLevelEntries } from './gguf-metadata.js';
import type { GgufContents, TypedValue } from './gguf-writer.js';
import { byteTokenizerJson } from './small-model.js';

/** A small Llama with a byte-level tokenizer of 259 tokens and a chat template, as a converter would write it. */
export function smallGguf(): GgufContents {
  const llama = familyCases[0]!;
  const family: FamilyCase = {
    ...llama,
    config: { ...llama.config, vocab_size: 259, num_hidden_layers: 2, tie_word_embeddings: true },
  };
  const contents = convert(family, familyTensors(family.config), 'BF16');
  const text = Object.entries(byteLevelEntries(byteTokenizerJson(), 'gpt-2')).map(
    ([key, value]): [string, TypedValue] => [key, typed(value)],
  );
  return {
    ...contents,
    metadata: {
      ...contents.metadata,
      ...Object.fromEntries(text),
      'tokenizer.ggml.bos_token_id': ['u32', 256],
      'tokenizer.ggml.eos_token_id': ['u32', 257],
      'tokenizer.ggml.add_bos_token': ['bool', true],
      'tokenizer.chat_template': [
        'string',
        "{% for message in messages %}{{ bos_token + message['content'] + eos_token }}{% endfor %}",
      ],
    },
  };
}

function typed(value: GgufValue): TypedValue {
  if (typeof value === 'string') return ['string', value];
  if (typeof value === 'boolean') return ['bool', value];
  if (typeof value !== 'object') return ['u32', value];
  const entries = Array.from<unknown>(value as Iterable<unknown>);
  if (entries.every((entry) => typeof entry === 'string')) return [['string'], entries];
  return [['i32'], entries as number[]];
}
