import type { Tokenizer } from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { splitWords } from '../src/gguf/tokenizer/byte-level-encoder.js';
import { ggufText } from '../src/gguf/tokenizer/gguf-text.js';
import { preTokenizer } from '../src/gguf/tokenizer/pre-tokenizers.js';
import { byteLevelEntries, ggufMetadata } from './support/gguf-metadata.js';
import { byteTokenizerJson } from './support/small-model.js';

const encode = (tokenizer: Tokenizer, text: string): number[] => tokenizer.encode(text, { addSpecialTokens: false });

describe('SentencePiece merging', () => {
  /** sentencepiece's bpe_model.cc and llama.cpp's llm_tokenizer_spm, with a search for the best pair in place of a heap. */
  function transcription(text: string, scores: ReadonlyMap<string, number>): string[] {
    const symbols = [...text];
    for (;;) {
      let best = -1;
      let bestScore = Number.NEGATIVE_INFINITY;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const score = scores.get(symbols[i]! + symbols[i + 1]!);
        if (score !== undefined && score > bestScore) [best, bestScore] = [i, score];
      }
      if (best < 0) return symbols;
      symbols.splice(best, 2, symbols[best]! + symbols[best + 1]!);
    }
  }

  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);

  function sentencepiece(scores: ReadonlyMap<string, number>, prefix: boolean): Tokenizer {
    const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...scores.keys()];
    const types = tokens.map((_, id) => (id === 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1));
    const metadata = ggufMetadata({
      'tokenizer.ggml.model': 'llama',
      'tokenizer.ggml.tokens': tokens,
      'tokenizer.ggml.token_type': Int32Array.from(types),
      'tokenizer.ggml.scores': Float32Array.from([...Array(259).fill(0), ...scores.values()]),
      'tokenizer.ggml.add_space_prefix': prefix,
    });
    return ggufText(metadata, { vocabSize: tokens.length }).tokenizer;
  }

  const letters = fc.array(fc.constantFrom('a', 'b', 'c', '😀', '▁'), { minLength: 1, maxLength: 5 });
  const vocabulary = fc
    .uniqueArray(
      letters.map((parts) => parts.join('')),
      { maxLength: 40 },
    )
    .chain((tokens) =>
      fc
        // Few different scores, zeros of both signs among them: ties are what goes wrong.
        .array(fc.constantFrom(-0, 0, 1, -1, -2.5, 3e30), { minLength: tokens.length, maxLength: tokens.length })
        .map((scores) => new Map(tokens.map((token, i) => [token, scores[i]!]))),
    );
  const texts = fc
    .array(fc.constantFrom('a', 'b', 'c', '😀', ' ', 'é'), { minLength: 1, maxLength: 40 })
    .map((parts) => parts.join(''));

  it('gives what a plain transcription of the algorithm gives, for any scores and texts', () => {
    fc.assert(
      fc.property(vocabulary, texts, fc.boolean(), (scores, text, prefix) => {
        const tokenizer = sentencepiece(scores, prefix);
        const pieces = transcription(`${prefix ? '▁' : ''}${text.replaceAll(' ', '▁')}`, scores);
        const expected = pieces.flatMap((piece) => {
          const id = scores.has(piece) ? tokenizer.idOf(piece) : undefined;
          return id === undefined ? [...new TextEncoder().encode(piece)].map((byte) => 3 + byte) : [id];
        });
        expect(encode(tokenizer, text)).toEqual(expected);
      }),
      { numRuns: 2000, seed: 3 },
    );
  });

  it('puts its space in front of every text that begins or follows a special token', () => {
    const tokenizer = sentencepiece(
      new Map([
        ['▁a', 1],
        ['▁', 0],
        ['a', 0],
      ]),
      true,
    );
    const [marked, a] = [tokenizer.idOf('▁a')!, tokenizer.idOf('a')!];
    expect(encode(tokenizer, 'aa<s>a</s></s>')).toEqual([marked, a, 1, marked, 2, 2]);
    expect(encode(tokenizer, '')).toEqual([]);
    expect(tokenizer.encode('', { addSpecialTokens: true })).toEqual([1]);
    expect(tokenizer.decode([marked, a, marked], { skipSpecialTokens: true })).toBe('aa a');
  });

  it('never makes a control token or a byte of text', () => {
    const tokenizer = sentencepiece(
      new Map(['<', '0', 'x', '4', '1', '>', '<0', '<0x', '<0x4', '<0x41'].map((t) => [t, 1])),
      false,
    );
    expect(encode(tokenizer, '<0x41>')).toEqual([tokenizer.idOf('<0x41')!, tokenizer.idOf('>')!]);
  });

  it('encodes a long text of one character in time', () => {
    const runs = new Map(Array.from({ length: 8 }, (_, i) => ['a'.repeat(2 ** i), 8 - i]));
    const tokenizer = sentencepiece(runs, false);
    const started = performance.now();
    expect(encode(tokenizer, 'a'.repeat(2 ** 18))).toHaveLength(2 ** 11);
    expect(performance.now() - started).toBeLessThan(5000);
  });
});

describe('byte-level merging', () => {
  it('merges in the order of the list, the leftmost among equals, for any list and text', () => {
    const pair = fc.tuple(fc.nat(30), fc.nat(30));
    const text = fc.array(fc.constantFrom('a', 'b', 'c', ' ', 'é', '1'), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(fc.array(pair, { maxLength: 30 }), text, (choices, parts) => {
        const { json, merges } = mergedTokenizer(choices);
        const { tokenizer } = ggufText(ggufMetadata(byteLevelEntries(json, 'gpt-2')), { vocabSize: 4096 });
        const words = splitWords(parts.join(''), preTokenizer('gpt-2').patterns);
        const expected = words.flatMap((word) => mergedPlainly(byteString(json, word), merges));
        expect(encode(tokenizer, parts.join(''))).toEqual(expected.map((token) => tokenizer.idOf(token)));
      }),
      { numRuns: 1000, seed: 5 },
    );
  });

  it('takes a word that is a token whole only where its pre-tokenizer says so', () => {
    const json = byteTokenizerJson();
    const vocab = { ...json.model.vocab, abc: 259, ab: 260, bc: 261 };
    const model = { ...json.model, vocab, merges: ['b c'] };
    const ids = (pre: string): number[] => {
      const entries = { ...byteLevelEntries({ ...json, model }, pre), 'tokenizer.ggml.bos_token_id': 256 };
      return encode(ggufText(ggufMetadata(entries), { vocabSize: 4096 }).tokenizer, 'abc');
    };
    expect(ids('gpt-2')).toEqual([97, 261]);
    expect(ids('dbrx')).toEqual([97, 261]);
    expect(ids('llama-bpe')).toEqual([259]);
  });

  it('refuses a text with a byte that no token covers, and never drops it', () => {
    const json = byteTokenizerJson();
    const vocab = Object.fromEntries(Object.entries(json.model.vocab).filter(([token]) => token !== 'z'));
    const entries = byteLevelEntries({ ...json, model: { ...json.model, vocab } }, 'gpt-2');
    const { tokenizer } = ggufText(ggufMetadata(entries), { vocabSize: 4096 });
    expect(encode(tokenizer, 'xy')).toEqual([120, 121]);
    expect(() => encode(tokenizer, 'xyz')).toThrow(expect.objectContaining({ code: 'STET_ERR_BAD_REQUEST' }));
  });

  /** Merges of tokens that exist by then; each choice names two of them. */
  function mergedTokenizer(choices: readonly (readonly [number, number])[]) {
    const json = byteTokenizerJson();
    const tokens = ['a', 'b', 'c', 'Ġ', 'Ã', '©', '1'];
    const vocab: Record<string, number> = { ...json.model.vocab };
    const merges: [string, string][] = [];
    for (const [i, j] of choices) {
      const [left, right] = [tokens[i % tokens.length]!, tokens[j % tokens.length]!];
      if (merges.some((merge) => merge[0] === left && merge[1] === right) || left.length + right.length > 12) continue;
      merges.push([left, right]);
      if (vocab[left + right] !== undefined) continue;
      vocab[left + right] = 259 + tokens.length;
      tokens.push(left + right);
    }
    return { json: { ...json, model: { ...json.model, vocab, merges } }, merges };
  }

  function mergedPlainly(word: string, merges: readonly (readonly [string, string])[]): string[] {
    const symbols = [...word];
    for (;;) {
      const ranks = symbols
        .slice(1)
        .map((right, i) => merges.findIndex((merge) => merge[0] === symbols[i] && merge[1] === right));
      const best = Math.min(...ranks.filter((rank) => rank >= 0));
      if (!Number.isFinite(best)) return symbols;
      const at = ranks.indexOf(best);
      symbols.splice(at, 2, symbols[at]! + symbols[at + 1]!);
    }
  }

  function byteString(json: ReturnType<typeof byteTokenizerJson>, word: string): string {
    const characters = Object.entries(json.model.vocab);
    return [...new TextEncoder().encode(word)].map((byte) => characters.find(([, id]) => id === byte)![0]).join('');
  }
});

describe('a pre-tokenizer', () => {
  const words = (name: string, text: string): string[] => splitWords(text, preTokenizer(name).patterns);
  const text = "I'LL say it's 12345 ＡＢ１２ don't!!\r\n\n  Ünïcødé\u00a0x\u0085y\ufeffz  ";

  it.each([
    [
      'gpt-2',
      [
        'I',
        "'",
        'LL',
        ' say',
        ' it',
        "'s",
        ' 12345',
        ' ＡＢ',
        '１２',
        ' don',
        "'t",
        '!!',
        '\r\n\n ',
        ' Ünïcødé',
        '\u00a0',
        'x',
        '\u0085',
        'y',
        '\ufeff',
        'z',
        '  ',
      ],
    ],
    [
      'smollm',
      [
        'I',
        "'",
        'LL',
        ' say',
        ' it',
        "'s",
        ' ',
        '1',
        '2',
        '3',
        '4',
        '5',
        ' ＡＢ',
        '１',
        '２',
        ' don',
        "'t",
        '!!',
        '\r\n\n ',
        ' Ünïcødé',
        '\u00a0',
        'x',
        '\u0085',
        'y',
        '\ufeff',
        'z',
        '  ',
      ],
    ],
    [
      'llama-bpe',
      [
        'I',
        "'LL",
        ' say',
        ' it',
        "'s",
        ' ',
        '123',
        '45',
        ' ＡＢ',
        '１２',
        ' don',
        "'t",
        '!!\r\n\n',
        ' ',
        ' Ünïcødé',
        '\u00a0x',
        '\u0085y',
        '\ufeffz',
        '  ',
      ],
    ],
    [
      'qwen2',
      [
        'I',
        "'LL",
        ' say',
        ' it',
        "'s",
        ' ',
        '1',
        '2',
        '3',
        '4',
        '5',
        ' ＡＢ',
        '１',
        '２',
        ' don',
        "'t",
        '!!\r\n\n',
        ' ',
        ' Ünïcødé',
        '\u00a0x',
        '\u0085y',
        '\ufeffz',
        '  ',
      ],
    ],
    [
      'tekken',
      [
        'I',
        "'LL",
        ' say',
        ' it',
        "'s",
        ' ',
        '1',
        '2',
        '3',
        '4',
        '5',
        ' ＡＢ',
        '１',
        '２',
        ' don',
        "'t",
        '!!\r\n\n',
        ' ',
        ' Ünïcødé',
        '\u00a0x',
        '\u0085y',
        '\ufeffz',
        '  ',
      ],
    ],
  ])('of the name %s cuts text where the pattern of its models does', (name, expected) => {
    expect(words(name, text)).toEqual(expected);
  });

  it('of the name tekken or gpt-4o tells upper from lower case', () => {
    expect(words('tekken', 'helloWorld HTMLParser ABC')).toEqual(['hello', 'World', ' HTMLParser', ' ABC']);
    expect(words('gpt-4o', "helloWorld's ABC'll")).toEqual(['hello', "World's", " ABC'll"]);
  });

  it.each([
    'default',
    'deepseek-llm',
    'deepseek-coder',
    'deepseek-v3',
    'falcon',
    'gpt-4o',
    'tekken',
    'qwen35',
    'seed-coder',
    'command-r',
  ])('of the name %s loses nothing of any text', (name) => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (any) => {
        const parts = words(name, any);
        expect(parts.join('')).toBe(any);
        expect(parts.every((part) => part !== '')).toBe(true);
      }),
      { numRuns: 200, seed: 9 },
    );
  });

  it.each([
    'default',
    'deepseek-llm',
    'deepseek-coder',
    'deepseek-v3',
    'falcon',
    'gpt-4o',
    'tekken',
    'qwen35',
    'llama-bpe',
    'smollm',
  ])(
    'of the name %s takes a text of 200,000 characters of any kind in time',
    (name) => {
      const started = performance.now();
      for (const unit of [' ', '\n', 'a', 'A', '1', '.', "'", 'é', 'ー', '一', '\u0301', '😀', ' \n', 'Aa'])
        for (const end of ['', 'x', ' x', '!']) words(name, unit.repeat(200_000 / unit.length) + end);
      expect(performance.now() - started).toBeLessThan(20_000);
    },
    60_000,
  );
});
