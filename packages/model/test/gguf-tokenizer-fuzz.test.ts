import { isStetError } from '@stet/backend';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GgufValue } from '../src/gguf/metadata-value.js';
import { ggufText } from '../src/gguf/tokenizer/gguf-text.js';
import { preTokenizer } from '../src/gguf/tokenizer/pre-tokenizers.js';
import { byteLevelEntries, ggufMetadata } from './support/gguf-metadata.js';
import { byteTokenizerJson } from './support/small-model.js';

/** Far above what a case takes, far below what a runaway takes. */
const CASE_LIMIT_MS = 4000;
const HEAP_LIMIT_BYTES = 512 * 2 ** 20;

type Entries = Record<string, GgufValue | undefined>;

function sound(): { byteLevel: Entries; sentencepiece: Entries } {
  const json = byteTokenizerJson();
  const vocab = { ...json.model.vocab, ab: 259, abc: 260, Ġa: 261 };
  const byteLevel = byteLevelEntries(
    { ...json, model: { ...json.model, vocab, merges: ['a b', 'ab c', 'Ġ a'] } },
    'qwen2',
  );
  const tokens = ['<unk>', '<s>', '</s>', '▁', 'a', 'b', 'c', 'ab', 'bc', '▁a', 'abc', '<|x|>'];
  const special = {
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
    'tokenizer.ggml.add_bos_token': true,
    'tokenizer.chat_template': '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}',
  };
  return {
    byteLevel: { ...byteLevel, ...special },
    sentencepiece: {
      'tokenizer.ggml.model': 'llama',
      'tokenizer.ggml.tokens': tokens,
      'tokenizer.ggml.token_type': Int32Array.from([2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4]),
      'tokenizer.ggml.scores': Float32Array.from(tokens, (_, id) => -(id % 4)),
      'tokenizer.ggml.add_space_prefix': true,
      ...special,
    },
  };
}

/** Reads and uses a tokenizer: it works, or fails with a StetError, in time. */
function survive(entries: Entries, texts: readonly string[]): 'works' | string {
  const started = performance.now();
  const outcome = attempt(entries, texts);
  expect(performance.now() - started, JSON.stringify(Object.keys(entries))).toBeLessThan(CASE_LIMIT_MS);
  return outcome;
}

function attempt(entries: Entries, texts: readonly string[]): 'works' | string {
  try {
    const { tokenizer, chatTemplate, eosIds } = ggufText(ggufMetadata(entries), { vocabSize: 2 ** 20 });
    for (const id of eosIds) expect(id).toBeLessThan(tokenizer.vocabSize);
    for (const text of texts) {
      for (const addSpecialTokens of [true, false]) {
        const ids = tokenizer.encode(text, { addSpecialTokens });
        expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < tokenizer.vocabSize)).toBe(true);
        tokenizer.decode(ids, { skipSpecialTokens: addSpecialTokens });
      }
    }
    chatTemplate?.render({ messages: [{ role: 'user', content: 'ab' }] });
    return 'works';
  } catch (error) {
    if (!isStetError(error)) throw error;
    return error.code;
  }
}

const texts = ['', 'abc ab', '<s>ab</s><|end|>', "x'LL 12\n\n  é😀", '\ud800 <|x|>'];
const anyString = fc.oneof(
  fc.constantFrom('a', 'ab', 'abc', '▁', '<s>', '', ' ', 'a b', '<0x00>', '__proto__', 'constructor'),
  fc.string({ maxLength: 8 }),
);
const anyNumber = fc.oneof(fc.constantFrom(0, -1, 1, 2 ** 31, 2 ** 53, Number.NaN, Infinity, -0, 0.5), fc.integer());
const anyValue: fc.Arbitrary<GgufValue> = fc.oneof(
  anyString,
  anyNumber,
  fc.boolean(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n }),
  fc.array(anyString, { maxLength: 300 }),
  fc.array(fc.boolean(), { maxLength: 5 }),
  fc.array(anyNumber, { maxLength: 300 }).map((list) => Float32Array.from(list)),
  fc.array(fc.integer({ min: -2, max: 8 }), { maxLength: 300 }).map((list) => Int32Array.from(list)),
  fc.array(fc.bigInt({ min: 0n, max: 9n }), { maxLength: 5 }).map((list) => BigInt64Array.from(list)),
);
const keys = [
  ...['model', 'pre', 'tokens', 'token_type', 'scores', 'merges', 'bos_token_id', 'eos_token_id', 'eot_token_id'],
  ...['unknown_token_id', 'add_bos_token', 'add_eos_token', 'add_sep_token', 'add_space_prefix'],
  ...['remove_extra_whitespaces', 'precompiled_charsmap'],
].map((name) => `tokenizer.ggml.${name}`);
const templateKeys = ['tokenizer.chat_template', 'tokenizer.chat_templates', 'general.architecture'];

/** A list with one of its elements changed, left out or doubled. */
function damaged(list: GgufValue, at: number, kind: 'change' | 'remove' | 'double', value: GgufValue): GgufValue {
  if (!Array.isArray(list) && !(list instanceof Int32Array) && !(list instanceof Float32Array)) return value;
  const copy = [...(list as Iterable<string | number>)];
  const index = at % Math.max(1, copy.length);
  if (kind === 'change') copy[index] = value as string | number;
  else if (kind === 'remove') copy.splice(index, 1);
  else copy.splice(index, 0, copy[index]!);
  if (list instanceof Int32Array) return Int32Array.from(copy as number[], Number);
  return list instanceof Float32Array ? Float32Array.from(copy as number[], Number) : (copy.map(String) as string[]);
}

describe.each(['byteLevel', 'sentencepiece'] as const)('a damaged GGUF tokenizer (%s)', (which) => {
  it('works or fails with a StetError, whatever one of its fields is', () => {
    const outcomes = new Set<string>();
    expect(survive(sound()[which], texts)).toBe('works');
    fc.assert(
      fc.property(fc.constantFrom(...keys, ...templateKeys), fc.option(anyValue, { nil: undefined }), (key, value) => {
        outcomes.add(survive({ ...sound()[which], [key]: value }, texts));
      }),
      { numRuns: 1500, seed: 21 },
    );
    expect([...outcomes]).toEqual(expect.arrayContaining(['works', 'STET_ERR_BAD_TOKENIZER']));
  });

  it('works or fails with a StetError, whatever one element of its lists is', () => {
    const outcomes = new Set<string>();
    const lists = keys.filter((key) => typeof sound()[which][key] === 'object');
    expect(lists.length).toBeGreaterThanOrEqual(3);
    fc.assert(
      fc.property(
        fc.constantFrom(...lists),
        fc.nat(300),
        fc.constantFrom('change', 'remove', 'double' as const),
        fc.oneof(anyString, anyNumber),
        (key, at, kind, value) => {
          const entries = sound()[which];
          outcomes.add(survive({ ...entries, [key]: damaged(entries[key]!, at, kind, value) }, texts));
        },
      ),
      { numRuns: 1500, seed: 22 },
    );
    expect([...outcomes]).toEqual(expect.arrayContaining(['works', 'STET_ERR_BAD_TOKENIZER']));
  });
});

describe('a hostile GGUF tokenizer', () => {
  const prefixes = (count: number): string[] => Array.from({ length: count }, (_, i) => `<${'a'.repeat(i % 250)}${i}`);

  it.each<[string, () => Entries, string]>([
    ['many special tokens that begin alike', () => special(prefixes(2000)), '<a'.repeat(20_000)],
    ['special tokens as long as they may be', () => special([`${'a'.repeat(255)}b`]), 'a'.repeat(50_000)],
    ['scores that are all equal', () => spread((_) => 0), 'ab'.repeat(50_000)],
    ['scores that make it merge from the end', () => spread((id) => id), 'abc'.repeat(30_000)],
  ])('with %s takes a long text in time', (_what, entries, text) => {
    const before = process.memoryUsage().heapUsed;
    expect(survive(entries(), [text])).toBe('works');
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(HEAP_LIMIT_BYTES);
  });

  it('with more characters of special tokens than it may have is refused before they are stored', () => {
    const tokens = Array.from({ length: 8000 }, (_, i) => `${i}${'x'.repeat(200)}`);
    expect(survive(special(tokens), [])).toBe('STET_ERR_BAD_TOKENIZER');
  });

  it('cannot name what objects inherit', () => {
    for (const name of ['toString', 'constructor', '__proto__', 'hasOwnProperty'])
      expect(() => preTokenizer(name)).toThrow(expect.objectContaining({ code: 'STET_ERR_BAD_TOKENIZER' }));
  });

  function special(tokens: readonly string[]): Entries {
    const entries = sound().byteLevel;
    const all = [...(entries['tokenizer.ggml.tokens'] as string[]), ...tokens];
    const types = Int32Array.from(all, (_, id) => (id < 262 ? 1 : 3));
    return { ...entries, 'tokenizer.ggml.tokens': all, 'tokenizer.ggml.token_type': types };
  }

  function spread(score: (id: number) => number): Entries {
    const entries = sound().sentencepiece;
    return {
      ...entries,
      'tokenizer.ggml.scores': Float32Array.from(entries['tokenizer.ggml.tokens'] as string[], (_, id) => score(id)),
    };
  }
});
