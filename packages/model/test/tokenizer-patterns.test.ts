import { createTokenizer } from '@stet/model';
import { describe, expect, it } from 'vitest';
import { byteTokenizerJson } from './support/small-model.js';

const split = (pattern: unknown) => ({ type: 'Split', pattern, behavior: 'Isolated', invert: false });
const withPattern = (source: string) =>
  createTokenizer({
    ...byteTokenizerJson(),
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [split({ Regex: source }), { type: 'ByteLevel', add_prefix_space: false, use_regex: false }],
    },
  });
const badTokenizer = (message: RegExp) =>
  expect.objectContaining({ code: 'STET_ERR_BAD_TOKENIZER', message: expect.stringMatching(message) });

describe('a pattern of tokenizer.json', () => {
  it.each([
    '(a+)+$',
    '(a|a)*b',
    '(a|aa)+$',
    '(?:a*)*b',
    'a*a*a*a*b',
    String.raw`\s*\s*\s*x`,
    '.*.*=',
    String.raw`(\w+)\1+$`,
    '(?=(a+))b',
    '(?<=a+)b',
    '[a-z]+[a-z]+!',
    'a?a?a?a?aaaa',
    'a{1,99999}',
    'a{1,9}b{1,9}c',
    '(?i:a)',
    'a|',
    '',
    `${'a?b?c|'.repeat(100)}d`,
    'x'.repeat(5000),
    String.raw`\s+(?!\S)`,
    String.raw`\p{N}+$`,
    '[',
    String.raw`a\ `.trim(),
    '[[a]&&[b]]',
    `[${String.raw`\p{L}`.repeat(150)}`,
    `${String.raw`[\p{L}\-a]?`.repeat(60)}[`,
    `${'a'.repeat(1000)}(`,
  ])('that is not known to end is refused: %s', (source) => {
    const started = performance.now();
    expect(() => withPattern(source)).toThrow(badTokenizer(/pattern that might never end/));
    expect(performance.now() - started).toBeLessThan(1000);
  });

  it.each([
    String.raw`\p{N}{1,3}`,
    String.raw`\p{N}`,
    String.raw`\s?\p{L}+`,
    String.raw` ?[^\s\p{L}\p{N}]+`,
    String.raw`[\r\n]`,
    '[0-9][0-9][0-9]',
    ' {2,}',
    '[一-龥ࠀ-一가-퟿]+',
    String.raw`[\p{P}\$\+<=>\^~\|]+`,
    String.raw`'s|'t| ?\p{L}+|\s+`,
    String.raw`\s+$`,
    String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
    String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
    String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
    String.raw` ?[^(\s|[.,!?…。，、।۔،])]+`,
  ])(
    'of a known model, or that cannot backtrack, cuts long texts in time: %s',
    (source) => {
      const tokenizer = withPattern(source);
      const started = performance.now();
      for (const unit of [' ', '\n', 'a', 'A', '1', '.', 'é', ' \n'])
        expect(
          tokenizer.encode(`${unit.repeat(8192 / unit.length)}x`, { addSpecialTokens: false }).length,
        ).toBeGreaterThan(8192);
      expect(performance.now() - started).toBeLessThan(10_000);
    },
    30_000,
  );

  it('cuts off the space at the end of a text, by a pattern that looks ahead once', () => {
    const json = byteTokenizerJson();
    const vocab = { ...json.model.vocab, ĠĠ: 259 };
    const tokenizer = createTokenizer({
      ...json,
      model: { ...json.model, vocab, merges: ['Ġ Ġ'] },
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          split({ Regex: String.raw`\s+$` }),
          { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
        ],
      },
    });
    expect(tokenizer.encode('a  b  ', { addSpecialTokens: false })).toEqual([0x61, 259, 0x62, 259]);
    const started = performance.now();
    tokenizer.encode(`${' '.repeat(100_000)}x`, { addSpecialTokens: false });
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  it('is a string or a pattern, and not both', () => {
    const pre_tokenizer = split({ String: 'a', Regex: 'b' });
    expect(() => createTokenizer({ ...byteTokenizerJson(), pre_tokenizer })).toThrow(badTokenizer(/not supported/));
  });
});

describe('the steps of tokenizer.json', () => {
  const normalizer = (steps: unknown[]) => ({
    ...byteTokenizerJson(),
    normalizer: { type: 'Sequence', normalizers: steps },
  });
  const replace = (from: string, content: string) => ({ type: 'Replace', pattern: { String: from }, content });

  it('may not make a text many times as long', () => {
    const doubling = Array.from({ length: 30 }, () => replace('a', 'aa'));
    expect(() => createTokenizer(normalizer(doubling))).toThrow(badTokenizer(/more than 16 times as long/));
    expect(() => createTokenizer(normalizer([replace('a', 'a'.repeat(1000))]))).toThrow(badTokenizer(/16 times/));
    expect(() => createTokenizer(normalizer([{ type: 'Prepend', prepend: 'a'.repeat(1000) }]))).toThrow(
      badTokenizer(/16 times/),
    );
    const tokenizer = createTokenizer(normalizer([replace('a', 'aa'), replace('long', 'b')]));
    expect(tokenizer.encode('along', { addSpecialTokens: false })).toEqual([0x61, 0x61, 0x62]);
  });

  it('may not be many, nor nested deeply', () => {
    expect(() => createTokenizer(normalizer(Array.from({ length: 100 }, () => ({ type: 'NFC' }))))).toThrow(
      badTokenizer(/more than 64 steps/),
    );
    let nested: unknown = { type: 'NFC' };
    for (let i = 0; i < 40; i++) nested = { type: 'Sequence', normalizers: [nested] };
    expect(() => createTokenizer({ ...byteTokenizerJson(), normalizer: nested })).toThrow(badTokenizer(/too deeply/));
  });
});
