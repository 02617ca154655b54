import { describe, expect, it } from 'vitest';
import type { GgufValue } from '../src/gguf/metadata-value.js';
import { type GgufText, ggufText } from '../src/gguf/tokenizer/gguf-text.js';
import { byteLevelEntries, ggufMetadata } from './support/gguf-metadata.js';
import { byteTokenizerJson } from './support/small-model.js';

const TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

type Entries = Record<string, GgufValue | undefined>;

/** 259 tokens: the bytes, `<|begin|>`, `<|end|>` (which ends answers by its text), and one that is user-defined. */
const bytes = (more: Entries = {}): Entries => ({ ...byteLevelEntries(byteTokenizerJson(), 'gpt-2'), ...more });

const letters = ['<unk>', '<s>', '</s>', '▁', 'a', 'b', 'ab', '▁ab'];

const sentencepiece = (more: Entries = {}): Entries => ({
  'tokenizer.ggml.model': 'llama',
  'tokenizer.ggml.tokens': letters,
  'tokenizer.ggml.token_type': Int32Array.from(letters, (_, id) =>
    id === 0 ? TYPE.unknown : id < 3 ? TYPE.control : 1,
  ),
  'tokenizer.ggml.scores': Float32Array.from(letters, (_, id) => -id),
  ...more,
});

const read = (entries: Entries, vocabSize = 300): GgufText => ggufText(ggufMetadata(entries), { vocabSize });
const badTokenizer = (message: RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_TOKENIZER', message: expect.stringMatching(message) });
const encode = (text: GgufText, input: string): number[] => text.tokenizer.encode(input, { addSpecialTokens: true });

/** Byte-level entries with further tokens of a type. */
function withTokens(tokens: readonly string[], type: number, more: Entries = {}): Entries {
  const entries = bytes();
  return {
    ...entries,
    'tokenizer.ggml.tokens': [...(entries['tokenizer.ggml.tokens'] as string[]), ...tokens],
    'tokenizer.ggml.token_type': Int32Array.from([
      ...(entries['tokenizer.ggml.token_type'] as Int32Array),
      ...tokens.map(() => type),
    ]),
    ...more,
  };
}

describe('special tokens of a GGUF file', () => {
  it('stand around a text as the file says', () => {
    const ids = { 'tokenizer.ggml.bos_token_id': 256, 'tokenizer.ggml.eos_token_id': 257 };
    expect(encode(read(bytes(ids)), 'a')).toEqual([0x61]);
    expect(encode(read(bytes({ ...ids, 'tokenizer.ggml.add_bos_token': true })), 'a')).toEqual([256, 0x61]);
    expect(encode(read(bytes({ ...ids, 'tokenizer.ggml.add_bos_token': true })), '<|begin|>a')).toEqual([256, 0x61]);
    expect(encode(read(bytes({ ...ids, 'tokenizer.ggml.add_eos_token': true })), 'a')).toEqual([0x61, 257]);
    expect(encode(read(bytes({ ...ids, 'tokenizer.ggml.pre': 'llama-bpe' })), 'a')).toEqual([256, 0x61]);
    const without = bytes({ ...ids, 'tokenizer.ggml.pre': 'llama-bpe', 'tokenizer.ggml.add_bos_token': false });
    expect(encode(read(without), 'a')).toEqual([0x61]);
    expect(read(bytes(ids)).tokenizer.encode('<|end|>', { addSpecialTokens: false })).toEqual([257]);
  });

  it('are 1, 2 and 0 for the kind llama where the file does not say, and the first begins texts', () => {
    const text = read(sentencepiece());
    expect(text.bosId).toBe(1);
    expect(text.eosIds).toEqual([2]);
    expect(encode(text, 'abab')).toEqual([1, 7, 6]);
    expect(encode(read(sentencepiece({ 'tokenizer.ggml.add_bos_token': false })), 'ab')).toEqual([7]);
    expect(encode(read(sentencepiece({ 'tokenizer.ggml.add_space_prefix': false })), 'ab')).toEqual([1, 6]);
  });

  it('have no default for the kind gpt2', () => {
    const text = read(withTokens([], TYPE.normal));
    expect(text.bosId).toBeUndefined();
    expect(text.eosIds).toEqual([257]);
  });

  it('end answers when the file says so, or when they are special and say so themselves', () => {
    const ending = ['<|im_end|>', '<|eot_id|>', 'plain'];
    expect(read(withTokens(ending, TYPE.control)).eosIds).toEqual([257, 259, 260]);
    expect(read(withTokens(ending, TYPE.userDefined)).eosIds).toEqual([257, 259, 260]);
    expect(read(withTokens(ending, TYPE.normal)).eosIds).toEqual([257]);
    const named = { 'tokenizer.ggml.eot_token_id': 261, 'tokenizer.ggml.eom_token_id': 97 };
    expect(read(withTokens(ending, TYPE.control, named)).eosIds).toEqual([97, 257, 259, 260, 261]);
    expect(read(withTokens(['<|return|>', '<|call|>'], TYPE.control)).eosIds).toEqual([259, 260]);
  });

  it('are left out of decoded text, and user-defined ones are not', () => {
    const { tokenizer } = read(bytes());
    expect([...tokenizer.specialIds].sort()).toEqual([256, 257]);
    expect(tokenizer.decode([0x68, 257, 258], { skipSpecialTokens: true })).toBe('h<not é special>');
    expect(tokenizer.decode([0x68, 257, 258], { skipSpecialTokens: false })).toBe('h<|end|><not é special>');
  });

  it('are found in a text from left to right, the longest first', () => {
    const { tokenizer } = read(withTokens(['<a>', '<a><b>', '<b><c>'], TYPE.control));
    expect(tokenizer.encode('<a><b><c>', { addSpecialTokens: false })).toEqual([260, 0x3c, 0x63, 0x3e]);
    expect(tokenizer.encode('<a><a', { addSpecialTokens: false })).toEqual([259, 0x3c, 0x61]);
    expect(tokenizer.encode('<b><c>', { addSpecialTokens: false })).toEqual([261]);
  });

  it('of Phi-3 take in the white space after them', () => {
    const tokens = [...letters, '<|end|>', '<|endoftext|>'];
    const entries = sentencepiece({
      'tokenizer.ggml.tokens': tokens,
      'tokenizer.ggml.token_type': Int32Array.from([2, 3, 3, 1, 1, 1, 1, 1, 3, 3]),
      'tokenizer.ggml.scores': new Float32Array(10),
    });
    const ids = (architecture: string): number[] => {
      const { tokenizer } = read({
        ...entries,
        'general.architecture': architecture,
        'tokenizer.ggml.add_space_prefix': false,
      });
      return tokenizer.encode('<|end|> \n a<|endoftext|> a', { addSpecialTokens: false });
    };
    expect(ids('phi3')).toEqual([8, 4, 9, 3, 4]);
    expect(ids('llama')).toEqual([8, 3, 0, 3, 4, 9, 3, 4]);
  });
});

describe('tokens of a GGUF file', () => {
  it('that are unused stand for no text', () => {
    const { tokenizer } = read(withTokens(['[PAD259]'], TYPE.unused));
    expect(tokenizer.vocabSize).toBe(260);
    expect(tokenizer.pieces.bytes(259, 'inside')).toBeUndefined();
    expect(tokenizer.decode([0x61, 259, 0x62], { skipSpecialTokens: false })).toBe('ab');
    expect(tokenizer.encode('[PAD259]', { addSpecialTokens: false })).toHaveLength(8);
  });

  it('that are empty are never found', () => {
    const { tokenizer } = read(withTokens(['', ''], TYPE.control));
    expect(tokenizer.encode('ab', { addSpecialTokens: false })).toEqual([0x61, 0x62]);
    expect(tokenizer.decode([0x61, 259, 260], { skipSpecialTokens: false })).toBe('a');
  });

  it('stand for unknown characters once in a row, where there are none for bytes', () => {
    const { tokenizer } = read(sentencepiece());
    expect(tokenizer.encode('axyb', { addSpecialTokens: false })).toEqual([3, 4, 0, 5]);
    expect(tokenizer.encode('<unk>x', { addSpecialTokens: false })).toEqual([0, 3, 0]);
    const types = Int32Array.from(letters, (_, id) => (id < 3 ? TYPE.control : TYPE.normal));
    const without = read(sentencepiece({ 'tokenizer.ggml.token_type': types })).tokenizer;
    expect(() => without.encode('ax', { addSpecialTokens: false })).toThrow(
      expect.objectContaining({ code: 'STET_ERR_BAD_REQUEST' }),
    );
  });

  it('take a lone surrogate for the replacement character that its bytes are', () => {
    const { tokenizer } = read(bytes());
    expect(tokenizer.encode('\ud800', { addSpecialTokens: false })).toEqual([0xef, 0xbf, 0xbd]);
  });
});

describe('the chat template of a GGUF file', () => {
  const messages = [{ role: 'user', content: 'Hi' }];

  it('sees the special tokens as the vocabulary writes them, and its variants by name', () => {
    const { chatTemplate } = read(
      bytes({
        'tokenizer.ggml.bos_token_id': 256,
        'tokenizer.ggml.eos_token_id': 257,
        'tokenizer.chat_template': '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}',
        'tokenizer.chat_templates': ['tool_use', 'rag'],
        'tokenizer.chat_template.tool_use': 'tools: {{ tools | length }}',
        'tokenizer.chat_template.rag': 'rag',
      }),
    );
    expect(chatTemplate!.render({ messages })).toBe('<|begin|>Hi<|end|>');
    expect(chatTemplate!.render({ messages, tools: [{}] })).toBe('tools: 1');
    expect([...chatTemplate!.sources.keys()].sort()).toEqual(['default', 'rag', 'tool_use']);
  });

  it('may be absent', () => {
    expect(read(bytes()).chatTemplate).toBeUndefined();
  });

  it.each<[string, Entries]>([
    ['no text', { 'tokenizer.chat_template': 7 }],
    ['names without a template', { 'tokenizer.chat_templates': ['x'] }],
    ['no list of names', { 'tokenizer.chat_templates': 'x' }],
    ['too many names', { 'tokenizer.chat_templates': Array.from({ length: 65 }, (_, i) => `n${i}`) }],
  ])('is refused with %s', (_what, entries) => {
    expect(() => read(bytes(entries))).toThrow(expect.objectContaining({ code: 'STET_ERR_BAD_CHAT_TEMPLATE' }));
  });
});

describe('a GGUF tokenizer is refused', () => {
  const merged = (merges: string[]): Entries => bytes({ 'tokenizer.ggml.merges': merges });

  it.each<[string, Entries, RegExp]>([
    ['without a kind', bytes({ 'tokenizer.ggml.model': undefined }), /no tokenizer; supported are gpt2, llama/],
    ...['bert', 't5', 'rwkv', 'plamo2', 'gemma4', 'none', 'toString'].map((kind): [string, Entries, RegExp] => [
      `of the kind ${kind}`,
      bytes({ 'tokenizer.ggml.model': kind }),
      new RegExp(`of the kind "${kind}"; supported are gpt2, llama`),
    ]),
    ['without a pre-tokenizer', bytes({ 'tokenizer.ggml.pre': undefined }), /does not name its pre-tokenizer.*convert/],
    [
      'with an unknown pre-tokenizer',
      bytes({ 'tokenizer.ggml.pre': 'magic' }),
      /pre-tokenizer "magic"; supported are .*gpt-2, .*llama-bpe, .*qwen2, .*smollm/,
    ],
    ['with a pre-tokenizer that is no name', bytes({ 'tokenizer.ggml.pre': 3 }), /tokenizer\.ggml\.pre is "3"/],
    ['without tokens', bytes({ 'tokenizer.ggml.tokens': undefined }), /no tokenizer\.ggml\.tokens/],
    ['with tokens that are no list', bytes({ 'tokenizer.ggml.tokens': 'a' }), /tokenizer\.ggml\.tokens is "a"/],
    ['with tokens that are numbers', bytes({ 'tokenizer.ggml.tokens': new Uint8Array(9) }), /a list of strings/],
    ['with a token twice', withTokens(['a'], TYPE.normal), /the token "a" twice, as id 97 and as id 259/],
    ['with a huge token', withTokens(['x'.repeat(5000)], TYPE.normal), /5000 characters/],
    ['with a huge special token', withTokens(['x'.repeat(300)], TYPE.control), /special token of 300/],
    ['without token types', bytes({ 'tokenizer.ggml.token_type': undefined }), /no tokenizer\.ggml\.token_type/],
    [
      'with too few token types',
      bytes({ 'tokenizer.ggml.token_type': new Int32Array(3) }),
      /3 entries in .*token_type/,
    ],
    ['with an unknown token type', withTokens(['x!'], 7), /of type 7/],
    ['with a token type that is no number', bytes({ 'tokenizer.ggml.token_type': 'x' }), /32-bit numbers/],
    ['with a byte that is none', withTokens(['<0xZZ>'], TYPE.byte), /"<0xZZ>".*is a byte/],
    ['without merges', bytes({ 'tokenizer.ggml.merges': undefined }), /no tokenizer\.ggml\.merges/],
    ['with a merge of unknown parts', merged(['a zz']), /the merge "a zz"/],
    ['with a merge of one part', merged(['ab']), /the merge "ab"/],
    ['with an empty merge', merged(['']), /the merge ""/],
    ['with a merge into no token', merged(['a b']), /the merge "a b"/],
    ['with a merge twice', withTokens(['ab'], TYPE.normal, { 'tokenizer.ggml.merges': ['a b', 'a b'] }), /"a b" twice/],
    ['with an id outside of it', bytes({ 'tokenizer.ggml.bos_token_id': 259 }), /bos_token_id is 259, and it has 259/],
    ['with a negative id', bytes({ 'tokenizer.ggml.eos_token_id': -1 }), /eos_token_id is -1/],
    ['with an id that is none', bytes({ 'tokenizer.ggml.eos_token_id': 'x' }), /a token id/],
    ['with a huge id', bytes({ 'tokenizer.ggml.eot_token_id': 2n ** 63n }), /eot_token_id is 9223372036854775808/],
    ['that adds a bos it lacks', bytes({ 'tokenizer.ggml.add_bos_token': true }), /adds a bos token/],
    ['that adds an eos it lacks', bytes({ 'tokenizer.ggml.add_eos_token': true }), /adds an eos token/],
    ['that adds a separator', bytes({ 'tokenizer.ggml.add_sep_token': true }), /add_sep_token/],
    ['with a flag that is a number', bytes({ 'tokenizer.ggml.add_bos_token': 1 }), /true or false/],
    ['without scores', sentencepiece({ 'tokenizer.ggml.scores': undefined }), /no tokenizer\.ggml\.scores/],
    ['with too few scores', sentencepiece({ 'tokenizer.ggml.scores': new Float32Array(2) }), /2 entries in .*scores/],
    [
      'with NaN as a score',
      sentencepiece({ 'tokenizer.ggml.scores': new Float32Array(8).fill(Number.NaN) }),
      /NaN as the score/,
    ],
    [
      'with an endless score',
      sentencepiece({ 'tokenizer.ggml.scores': new Float32Array(8).fill(-Infinity) }),
      /-Infinity/,
    ],
    [
      'that normalizes by a map',
      sentencepiece({ 'tokenizer.ggml.precompiled_charsmap': Uint8Array.of(1) }),
      /charsmap/,
    ],
    ['that takes out white space', sentencepiece({ 'tokenizer.ggml.remove_extra_whitespaces': true }), /remove_extra/],
  ])('%s', (_what, entries, message) => {
    expect(() => read(entries)).toThrow(badTokenizer(message));
  });

  it('with more tokens than its model has embeddings, and not with fewer', () => {
    expect(() => read(bytes(), 258)).toThrow(badTokenizer(/259 tokens, and its model has embeddings for 258/));
    expect(read(bytes(), 259).tokenizer.vocabSize).toBe(259);
    expect(read(bytes(), 1000).tokenizer.vocabSize).toBe(259);
  });

  it('with some bytes but not all', () => {
    const tokens = [...letters, '<0x00>', '<0x01>'];
    const types = Int32Array.from([2, 3, 3, 1, 1, 1, 1, 1, 6, 6]);
    const entries = sentencepiece({
      'tokenizer.ggml.tokens': tokens,
      'tokenizer.ggml.token_type': types,
      'tokenizer.ggml.scores': new Float32Array(10),
    });
    expect(() => read(entries)).toThrow(badTokenizer(/2 of 256 bytes/));
  });
});
