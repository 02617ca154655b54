import { createTokenizer } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { splitWords } from '../src/gguf/tokenizer/byte-level-encoder.js';
import { preTokenizer } from '../src/gguf/tokenizer/pre-tokenizers.js';
import { hasSharedModels, needsSharedModels, readSharedJson } from './support/shared-models.js';
import { type Family, tokenizerJson } from './support/tokenizers.js';
import vectors from './vectors/awkward-texts.json' with { type: 'json' };

const words: Readonly<Record<string, readonly (readonly string[])[]>> = vectors.words;
const ids: Readonly<Record<string, readonly (readonly number[])[]>> = vectors.ids;

describe('a pre-tokenizer cuts awkward texts as the Rust library does', () => {
  it.each(Object.keys(words))('of the name %s', (name) => {
    const { patterns } = preTokenizer(name);
    for (const [i, text] of vectors.texts.entries())
      expect(splitWords(text, patterns), JSON.stringify(text)).toEqual(words[name]![i]);
  });
});

describe.skipIf(!hasSharedModels)(
  `a tokenizer.json encodes awkward texts as the Rust library does${needsSharedModels}`,
  () => {
    it.each(Object.keys(ids))('%s', (name) => {
      const json = name === 'tales' ? readSharedJson('tales', 'tokenizer.json') : tokenizerJson(name as Family);
      const tokenizer = createTokenizer(json);
      for (const [i, text] of vectors.texts.entries())
        expect(tokenizer.encode(text, { addSpecialTokens: false }), JSON.stringify(text)).toEqual(ids[name]![i]);
    });
  },
);
