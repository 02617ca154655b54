import { createTokenizer } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { hasSharedModels, needsSharedModels } from './support/shared-models.js';
import { byteTokenizerJson } from './support/small-model.js';
import { families, familyTokenizer, tokenizerCases } from './support/tokenizers.js';
import randomDecodes from './vectors/random-decode.json' with { type: 'json' };

describe.skipIf(!hasSharedModels)(`tokenizers of real families${needsSharedModels}`, () => {
  it.each(families)('%s encodes and decodes the golden texts', (family) => {
    const tokenizer = familyTokenizer(family);
    const cases = tokenizerCases(family);
    expect(cases).toHaveLength(30);
    for (const { text, ids, idsWithSpecial, decoded, decodedSkipSpecial } of cases) {
      expect(tokenizer.encode(text, { addSpecialTokens: false }), text).toEqual(ids);
      expect(tokenizer.encode(text, { addSpecialTokens: true }), text).toEqual(idsWithSpecial);
      expect(tokenizer.decode(ids, { skipSpecialTokens: false }), text).toBe(decoded);
      expect(tokenizer.decode(ids, { skipSpecialTokens: true }), text).toBe(decodedSkipSpecial);
    }
  });
});

describe.skipIf(!hasSharedModels)(`decoders of real families${needsSharedModels}`, () => {
  it.each(families)('%s decodes random ids as the Rust library does', (family) => {
    const tokenizer = familyTokenizer(family);
    const cases = randomDecodes.families[family];
    expect(cases).toHaveLength(25);
    for (const { ids, decoded, decodedSkipSpecial } of cases) {
      expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(decoded);
      expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe(decodedSkipSpecial);
    }
  });

  it('replace only what is wrong in a run of byte tokens', () => {
    const tokenizer = familyTokenizer('llama2-style');
    const ids = ['<0xC3>', '<0xA9>', '<0xFF>', '<0x41>'].map((token) => tokenizer.idOf(token)!);
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe('é\ufffdA');
  });
});

describe('a tokenizer', () => {
  const byteTokenizer = createTokenizer(byteTokenizerJson());

  it('decodes nothing to nothing', () => {
    expect(byteTokenizer.decode([], { skipSpecialTokens: true })).toBe('');
  });

  it('gives every byte its token and knows its special ids', () => {
    expect(byteTokenizer.vocabSize).toBe(259);
    expect([...byteTokenizer.specialIds]).toEqual([256, 257]);
    expect(byteTokenizer.encode('é\n', { addSpecialTokens: false })).toEqual([0xc3, 0xa9, 0x0a]);
    expect(byteTokenizer.pieces.bytes(0x0a, 'inside')).toEqual(Uint8Array.of(0x0a));
    expect(byteTokenizer.pieces.bytes(999, 'inside')).toBeUndefined();
    expect(byteTokenizer.idOf('<|end|>')).toBe(257);
  });

  it('writes special tokens only where they are wanted and added tokens as they are', () => {
    const ids = [0x68, 257, 0x69, 258];
    expect(byteTokenizer.decode(ids, { skipSpecialTokens: true })).toBe('hi<not é special>');
    expect(byteTokenizer.decode(ids, { skipSpecialTokens: false })).toBe('h<|end|>i<not é special>');
  });

  it('obeys what an added token says about the spaces around it', () => {
    const json = byteTokenizerJson();
    const added_tokens = json.added_tokens.map((token) => ({ ...token, lstrip: true, rstrip: true }));
    const stripping = createTokenizer({ ...json, added_tokens });
    expect(byteTokenizer.encode('a <|end|> b', { addSpecialTokens: false })).toEqual([0x61, 0x20, 257, 0x20, 0x62]);
    expect(stripping.encode('a <|end|> b', { addSpecialTokens: false })).toEqual([0x61, 257, 0x62]);
  });

  it('fails with a StetError where a part of it shows itself malformed', () => {
    const json = { ...byteTokenizerJson(), post_processor: { type: 'TemplateProcessing' } };
    const encode = () => createTokenizer(json).encode('a', { addSpecialTokens: true });
    expect(encode).toThrow(expect.objectContaining({ code: 'STET_ERR_BAD_TOKENIZER' }));
  });

  it('puts the bos token in front when it is told to, once', () => {
    const byString = createTokenizer(byteTokenizerJson(), { beginning: '<|begin|>' });
    const byId = createTokenizer(byteTokenizerJson(), { beginning: 256 });
    for (const tokenizer of [byString, byId]) {
      expect(tokenizer.encode('a', { addSpecialTokens: true })).toEqual([256, 0x61]);
      expect(tokenizer.encode('', { addSpecialTokens: true })).toEqual([256]);
      expect(tokenizer.encode('a', { addSpecialTokens: false })).toEqual([0x61]);
      expect(tokenizer.encode('<|begin|>a', { addSpecialTokens: true })).toEqual([256, 0x61]);
    }
  });

  it('leaves the beginning to the post-processor where there is one', () => {
    const json = {
      ...byteTokenizerJson(),
      post_processor: {
        type: 'TemplateProcessing',
        single: [{ SpecialToken: { id: '<|begin|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
        pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 0 } }],
        special_tokens: { '<|begin|>': { id: '<|begin|>', ids: [256], tokens: ['<|begin|>'] } },
      },
    };
    for (const options of [{}, { beginning: 256 }]) {
      expect(createTokenizer(json, options).encode('a', { addSpecialTokens: true })).toEqual([256, 0x61]);
    }
  });

  it('refuses a text with a token that the model does not know', () => {
    const tokenizer = createTokenizer(byteTokenizerJson(), { idLimit: 258 });
    expect(tokenizer.encode('<|end|>', { addSpecialTokens: false })).toEqual([257]);
    expect(() => tokenizer.encode('<not é special>', { addSpecialTokens: false })).toThrow(
      expect.objectContaining({ code: 'STET_ERR_BAD_REQUEST', message: expect.stringContaining('id 258') }),
    );
  });

  it('refuses a text with a character that no token covers', () => {
    const tokenizer = createTokenizer({
      ...byteTokenizerJson(),
      added_tokens: [],
      pre_tokenizer: null,
      decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' },
      model: {
        type: 'Unigram',
        unk_id: null,
        vocab: [
          ['a', -1],
          ['b', -2],
        ],
      },
    });
    expect(tokenizer.encode('ab', { addSpecialTokens: false })).toEqual([0, 1]);
    expect(() => tokenizer.encode('ac', { addSpecialTokens: false })).toThrow(
      expect.objectContaining({ code: 'STET_ERR_BAD_REQUEST' }),
    );
  });

  it.each([
    ['no object', 7, /tokenizer\.json/],
    ['no model', { decoder: { type: 'ByteLevel' } }, /model/],
    ['no decoder', { ...byteTokenizerJson(), decoder: null }, /no decoder/],
    ['an unknown model', { ...byteTokenizerJson(), model: { type: 'Magic', vocab: {} } }, /model\.type/],
    ['an unknown pattern', { ...byteTokenizerJson(), pre_tokenizer: { type: 'Split', pattern: {} } }, /pattern/],
    ['an unknown step', { ...byteTokenizerJson(), normalizer: { type: 'Magic' } }, /cannot be used: .*Magic/],
    ['no vocabulary', { ...byteTokenizerJson(), model: { type: 'BPE' } }, /model\.vocab has neither/],
    ['a huge id', { ...byteTokenizerJson(), model: { type: 'BPE', vocab: { a: 4e9 } } }, /the id 4000000000/],
    ['a huge added id', { ...byteTokenizerJson(), added_tokens: [{ id: 4e9, content: 'x' }] }, /added_tokens/],
    ['an empty added token', { ...byteTokenizerJson(), added_tokens: [{ id: 1, content: '' }] }, /added_tokens/],
    ['a token without a score', { ...byteTokenizerJson(), model: { type: 'Unigram', vocab: [['a']] } }, /model\.vocab/],
    ['an unsupported decoder', { ...byteTokenizerJson(), decoder: { type: 'CTC' } }, /CTC/],
    ['a bad added token', { ...byteTokenizerJson(), added_tokens: [{ id: -1, content: 'x' }] }, /added_tokens/],
  ])('refuses a file with %s', (_what, json, message) => {
    expect(() => createTokenizer(json)).toThrow(
      expect.objectContaining({ code: 'STET_ERR_BAD_TOKENIZER', message: expect.stringMatching(message) }),
    );
  });

  it('refuses a bos token that is not in the vocabulary', () => {
    expect(() => createTokenizer(byteTokenizerJson(), { beginning: '<s>' })).toThrow(
      expect.objectContaining({ code: 'STET_ERR_BAD_TOKENIZER' }),
    );
  });
});
