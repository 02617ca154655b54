import { Tokenizer as Library } from '@huggingface/tokenizers';
import { createStreamDecoder, createTokenizer, type DecodeState, type Tokenizer } from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasSharedModels, needsSharedModels } from './support/shared-models.js';
import { byteTokenizerJson } from './support/small-model.js';
import { families, familyTokenizer, tokenizerCases, tokenizerJson } from './support/tokenizers.js';

/** The texts of each step and of the flush, and the states on the way. */
function stream(tokenizer: Tokenizer, ids: readonly number[], start?: DecodeState) {
  const decoder = createStreamDecoder(tokenizer);
  const states = [start ?? decoder.initial];
  const texts: string[] = [];
  for (const id of ids) {
    const { state, text } = decoder.next(states.at(-1)!, id);
    states.push(state);
    texts.push(text);
  }
  return { states, texts, text: texts.join('') + decoder.flush(states.at(-1)!) };
}

/** Neither a replacement character nor half of a surrogate pair. */
const isWhole = (text: string): boolean => !/[\ufffd\ud800-\udfff]/u.test(text);

describe.skipIf(!hasSharedModels)(`streams of real families${needsSharedModels}`, () => {
  it.each(families)('%s streams every golden text, whole characters only', (family) => {
    const tokenizer = familyTokenizer(family);
    for (const { ids, decodedSkipSpecial } of tokenizerCases(family)) {
      const { texts, text } = stream(tokenizer, ids);
      expect(text).toBe(decodedSkipSpecial);
      if (isWhole(decodedSkipSpecial)) expect(texts.every(isWhole), JSON.stringify(texts)).toBe(true);
    }
  });

  it.each(families)('%s streams random tokens to what its library decodes at once', (family) => {
    const json = tokenizerJson(family);
    const tokenizer = createTokenizer(json);
    const library = new Library(json, {});
    // The library strips a byte order mark and, of a first token of several marks, takes only one off.
    const ids = Array.from({ length: tokenizer.vocabSize }, (_, id) => id).filter(
      (id) => !/^▁▁|^<0x(EF|BB|BF)>$/.test(library.id_to_token(id)!),
    );
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...ids), { minLength: 1, maxLength: 40 }), (tokens) => {
        const whole = library.decode(tokens, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
        expect(stream(tokenizer, tokens).text).toBe(whole);
        expect(tokenizer.decode(tokens, { skipSpecialTokens: true })).toBe(whole);
      }),
      { numRuns: 300, seed: 42 },
    );
  });

  it.each(families)('%s continues a prompt so that prompt and continuation are one text', (family) => {
    const tokenizer = familyTokenizer(family);
    const decoder = createStreamDecoder(tokenizer);
    for (const { ids, decodedSkipSpecial } of tokenizerCases(family)) {
      for (let split = 0; split <= ids.length; split++) {
        const prompt = stream(tokenizer, ids.slice(0, split));
        const rest = stream(tokenizer, ids.slice(split), decoder.after(ids.slice(0, split)));
        expect(prompt.texts.join('') + rest.text).toBe(decodedSkipSpecial);
      }
    }
  });

  it('keeps the space of a word that follows a Llama 2 prompt', () => {
    const tokenizer = familyTokenizer('llama2-style');
    const decoder = createStreamDecoder(tokenizer);
    const [prompt, word] = [
      tokenizer.encode('Hello', { addSpecialTokens: true }),
      tokenizer.encode('world', { addSpecialTokens: false }),
    ];
    expect(stream(tokenizer, word).text).toBe('world');
    expect(stream(tokenizer, word, decoder.after(prompt)).text).toBe(' world');
  });
});

describe('a stream decoder', () => {
  const tokenizer = createTokenizer(byteTokenizerJson());
  const bytes = (text: string): number[] => [...new TextEncoder().encode(text)];

  it('gives a character with its last byte, for characters of one to four bytes', () => {
    expect(stream(tokenizer, bytes('aé€😀')).texts).toEqual(['a', '', 'é', '', '', '€', '', '', '', '😀']);
  });

  it('decodes any bytes, split anywhere, as one TextDecoder does', () => {
    // Bytes from the edges of UTF-8's tables come up far more often than by chance.
    const edges = [
      0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff,
    ];
    const byte = fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 0, max: 255 }));
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 30 }), (sequence) => {
        const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(sequence));
        const { text, states } = stream(tokenizer, sequence);
        expect(text).toBe(whole);
        expect(states.every(({ pending }) => pending.length <= 3)).toBe(true);
      }),
      { numRuns: 5000, seed: 7 },
    );
  });

  it('owes one replacement character for a character that never became whole', () => {
    const { states, texts } = stream(tokenizer, bytes('😀').slice(0, 3));
    expect(texts.join('')).toBe('');
    expect(createStreamDecoder(tokenizer).flush(states.at(-1)!)).toBe('\ufffd');
  });

  it('comes back to an earlier state after a rollback', () => {
    const decoder = createStreamDecoder(tokenizer);
    const { states } = stream(tokenizer, bytes('a€').slice(0, 3));
    const before = structuredClone(states[3]!);
    expect(decoder.next(states[3]!, 0x41).text).toBe('\ufffdA');
    expect(decoder.next(states[3]!, 0xac).text).toBe('€');
    expect(states[3]).toEqual(before);
  });

  it('skips special tokens inside a character, or writes them when told to', () => {
    const [first, second] = bytes('é') as [number, number];
    expect(stream(tokenizer, [first, 257, second]).text).toBe('é');
    const keep = createStreamDecoder(tokenizer, { specialTokens: 'keep' });
    let state = keep.initial;
    const texts = [first, 257, second].map((id) => {
      const step = keep.next(state, id);
      state = step.state;
      return step.text;
    });
    expect(texts).toEqual(['', '\ufffd<|end|>', '\ufffd']);
  });

  it('leaves the state alone at an id that no token has', () => {
    const decoder = createStreamDecoder(tokenizer);
    const { state } = decoder.next(decoder.initial, 0xc3);
    expect(decoder.next(state, 100_000)).toEqual({ state, text: '' });
  });

  const metaspace = (prepend_scheme: string) =>
    createTokenizer({
      ...byteTokenizerJson(),
      added_tokens: [],
      pre_tokenizer: null,
      decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme },
      model: { type: 'Unigram', unk_id: 0, vocab: ['▁a', '▁▁', 'b'].map((token) => [token, -1]) },
    });

  it('drops the marks of the first token alone, and none where marks are never put in front', () => {
    expect(stream(metaspace('always'), [1, 0, 0, 2]).text).toBe(' a ab');
    expect(stream(metaspace('always'), [0, 1, 2]).text).toBe('a  b');
    expect(stream(metaspace('never'), [0, 1, 2]).text).toBe(' a  b');
  });
});
