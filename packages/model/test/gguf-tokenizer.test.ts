import { createStreamDecoder, createTokenizer, type Tokenizer } from '@stet/model';
import { openFolder } from '@stet/model/node';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readGgufHeader } from '../src/gguf/header/read-header.js';
import type { GgufMetadata, GgufValue } from '../src/gguf/metadata-value.js';
import { ggufText } from '../src/gguf/tokenizer/gguf-text.js';
import { byteLevelEntries, ggufMetadata, sentencepieceEntries } from './support/gguf-metadata.js';
import { hasSharedModels, needsSharedModels, readSharedJson, sharedModel } from './support/shared-models.js';
import { type Family, familyTokenizer, tokenizerCases, tokenizerJson } from './support/tokenizers.js';

const entriesOf = {
  'llama2-style': () => sentencepieceEntries(tokenizerJson('llama2-style')),
  'llama3-style': () => ({
    ...byteLevelEntries(tokenizerJson('llama3-style'), 'llama-bpe'),
    'tokenizer.ggml.bos_token_id': 0,
  }),
  'qwen2-style': () => byteLevelEntries(tokenizerJson('qwen2-style'), 'qwen2'),
  'smollm-style': () => byteLevelEntries(tokenizerJson('smollm-style'), 'smollm'),
  tales: () => byteLevelEntries(readSharedJson('tales', 'tokenizer.json'), 'gpt-2'),
} satisfies Record<string, () => Record<string, GgufValue>>;

type Name = keyof typeof entriesOf;

const names = Object.keys(entriesOf) as Name[];
const families = names.filter((name): name is Exclude<Name, 'tales'> => name !== 'tales') satisfies Family[];
const tokenizerOf = (name: Name): Tokenizer =>
  ggufText(ggufMetadata(entriesOf[name]()), { vocabSize: 65536 }).tokenizer;

function streamed(tokenizer: Tokenizer, ids: readonly number[]): { texts: string[]; text: string } {
  const decoder = createStreamDecoder(tokenizer);
  let state = decoder.initial;
  const texts = ids.map((id) => {
    const step = decoder.next(state, id);
    state = step.state;
    return step.text;
  });
  return { texts, text: texts.join('') + decoder.flush(state) };
}

const awkward = [
  ...[' ', '  ', '\n', '\r\n', '\t', '\u0085', '\u00a0', '\u2028', '\ufeff', '\u200b', '\u180e', '\u3000', '\0'],
  ...[
    'a',
    'Z',
    'é',
    'e\u0301',
    'ſ',
    'ß',
    '\u0345',
    'ʼ',
    "'",
    "'s",
    "'LL",
    "'ſ",
    '’s',
    '1',
    '½',
    '²',
    '٣',
    '𝟙',
    'Ⅷ',
    '一',
  ],
  ...[
    'ー',
    '한',
    '\u1112\u1161',
    'ै',
    'क',
    '.',
    '!!',
    '_',
    '$',
    '€',
    '+',
    '👩\u200d👧',
    '🇫🇷',
    '<|im_end|>',
    '<|im_',
    '\ue000',
  ],
];

/** Neither a replacement character nor half of a surrogate pair. */
const isWhole = (text: string): boolean => !/[\ufffd\ud800-\udfff]/u.test(text);

describe.skipIf(!hasSharedModels)(`GGUF tokenizers of real families${needsSharedModels}`, () => {
  it.each(families)('%s encodes and decodes the golden texts as its tokenizer.json does', (family) => {
    const tokenizer = tokenizerOf(family);
    const cases = tokenizerCases(family);
    expect(cases).toHaveLength(30);
    for (const { text, ids, idsWithSpecial, decoded, decodedSkipSpecial } of cases) {
      expect(tokenizer.encode(text, { addSpecialTokens: false }), text).toEqual(ids);
      expect(tokenizer.encode(text, { addSpecialTokens: true }), text).toEqual(idsWithSpecial);
      expect(tokenizer.decode(ids, { skipSpecialTokens: false }), text).toBe(decoded);
      expect(tokenizer.decode(ids, { skipSpecialTokens: true }), text).toBe(decodedSkipSpecial);
    }
  });

  it.each(families)('%s streams the golden texts, whole characters only', (family) => {
    const tokenizer = tokenizerOf(family);
    for (const { ids, decodedSkipSpecial } of tokenizerCases(family)) {
      const { texts, text } = streamed(tokenizer, ids);
      expect(text).toBe(decodedSkipSpecial);
      if (isWhole(decodedSkipSpecial)) expect(texts.every(isWhole), JSON.stringify(texts)).toBe(true);
    }
  });

  it.each(families)('%s decodes any ids as the tokenizer of its tokenizer.json does', (family) => {
    const [ours, theirs] = [tokenizerOf(family), familyTokenizer(family)];
    const id = fc.integer({ min: 0, max: theirs.vocabSize - 1 });
    fc.assert(
      fc.property(fc.array(id, { maxLength: 40 }), (ids) => {
        for (const skipSpecialTokens of [true, false])
          expect(ours.decode(ids, { skipSpecialTokens })).toBe(theirs.decode(ids, { skipSpecialTokens }));
      }),
      { numRuns: 300, seed: 11 },
    );
  });

  it.each(names.filter((name) => name !== 'llama2-style'))('%s encodes any text as its tokenizer.json does', (name) => {
    const json = name === 'tales' ? readSharedJson('tales', 'tokenizer.json') : tokenizerJson(name);
    const [ours, theirs] = [tokenizerOf(name), createTokenizer(json)];
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      // What white space, letters, digits and marks are is where two engines differ.
      fc.array(fc.constantFrom(...awkward), { maxLength: 30 }).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(text, (any) => {
        const expected = theirs.encode(any, { addSpecialTokens: false });
        expect(ours.encode(any, { addSpecialTokens: false }), JSON.stringify(any)).toEqual(expected);
      }),
      { numRuns: 500, seed: 13 },
    );
  });

  it.each(names)('%s streams any ids to what one decoder makes of all their bytes', (name) => {
    const tokenizer = tokenizerOf(name);
    const id = fc.integer({ min: 0, max: tokenizer.vocabSize - 1 });
    fc.assert(
      fc.property(fc.array(id, { maxLength: 40 }), (ids) => {
        expect(streamed(tokenizer, ids).text).toBe(decodedAtOnce(tokenizer, ids));
      }),
      { numRuns: 300, seed: 12 },
    );
  });

  it('tales encodes and decodes as its tokenizer.json says', () => {
    const { prompts } = talesGolden();
    const tokenizer = tokenizerOf('tales');
    expect(prompts.length).toBeGreaterThan(0);
    for (const { text, ids } of prompts) {
      expect(tokenizer.encode(text, { addSpecialTokens: false })).toEqual(ids);
      expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe(text);
    }
  });

  it('SmolLM2 encodes the golden prompts as llama.cpp does, and answers with whole text', async () => {
    const { metadata } = await smollm2Header();
    const { tokenizer, eosIds, bosId, chatTemplate } = ggufText(metadata, { vocabSize: 49152 });
    const { cases } = readSharedJson<{ cases: { prompt: string; promptIds: number[]; outputIds: number[] }[] }>(
      'smollm2',
      'golden.json',
    );
    expect(cases).toHaveLength(5);
    for (const { prompt, promptIds, outputIds } of cases) {
      expect(tokenizer.encode(prompt, { addSpecialTokens: true })).toEqual(promptIds);
      expect(tokenizer.decode(promptIds, { skipSpecialTokens: false })).toBe(prompt);
      expect(streamed(tokenizer, outputIds).text).toBe(decodedAtOnce(tokenizer, outputIds));
    }
    expect([...eosIds].map((id) => tokenizer.decode([id], { skipSpecialTokens: false }))).toEqual([
      '<|endoftext|>',
      '<|im_end|>',
      '<reponame>',
    ]);
    expect(bosId).toBe(1);
    expect(chatTemplate!.render({ messages: [{ role: 'user', content: 'What is the capital of France?' }] })).toBe(
      cases[2]!.prompt,
    );
  });
});

async function smollm2Header(): Promise<{ metadata: GgufMetadata }> {
  const source = await openFolder(sharedModel('smollm2'));
  try {
    return await readGgufHeader(source, 'SmolLM2-135M-Instruct.Q4_1.gguf');
  } finally {
    await source.close();
  }
}

function talesGolden(): { prompts: { text: string; ids: number[] }[] } {
  const reference = createTokenizer(readSharedJson('tales', 'tokenizer.json'));
  const texts = ['Once upon a time', "The King said: “No!” — and 1234 geese\n\n  flew\taway. Isn't it?", '🦆 ñ ﷽ 你好'];
  return {
    prompts: texts.map((text) => ({ text, ids: reference.encode(text, { addSpecialTokens: false }) })),
  };
}

function decodedAtOnce({ pieces, specialIds }: Tokenizer, ids: readonly number[]): string {
  const kept = ids.filter((id) => !specialIds.has(id) && pieces.bytes(id, 'inside'));
  const bytes = kept.flatMap((id) => [...pieces.bytes(id, 'inside')!]);
  let start = 0;
  while (start < pieces.leadingSpaces && bytes[start] === 0x20) start++;
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes.slice(start)));
}
