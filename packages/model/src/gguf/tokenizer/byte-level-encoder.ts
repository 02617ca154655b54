import { assert, StetError } from '@stet/backend';
import { quote } from '../../files/quote.js';
import { byteLevelAlphabet } from '../../text/byte-level.js';
import type { GgufMetadata } from '../metadata-value.js';
import { badTokenizer } from './bad-tokenizer.js';
import { mergeSymbols } from './merge-symbols.js';
import { stringsField } from './metadata-fields.js';
import type { PreTokenizer } from './pre-tokenizers.js';
import type { TextEncoding } from './text-encoding.js';
import type { Vocabulary } from './vocabulary.js';

/** Pairs of ids share a number of 44 bits; ids are less than 2^22. */
const IDS = 2 ** 22;

/**
 * GPT-2's byte-level BPE (`tokenizer.ggml.model` = gpt2): text is cut into words, each word's bytes are written in
 * GPT-2's alphabet and merged by the file's list, the first of it first. Throws `STET_ERR_BAD_TOKENIZER`.
 */
export function byteLevelEncoding(
  metadata: GgufMetadata,
  vocabulary: Vocabulary,
  preTokenizer: PreTokenizer,
): TextEncoding {
  const merges = readMerges(metadata, vocabulary);
  const alphabet = byteLevelAlphabet();
  const byteIds = alphabet.map((character) => vocabulary.idOf.get(character));
  const encoder = new TextEncoder();
  return {
    leadingSpaces: 0,
    encode: (text, ids) => {
      const normal = preTokenizer.normalization === 'NFC' ? text.normalize('NFC') : text;
      for (const word of splitWords(normal, preTokenizer.patterns)) {
        const bytes = encoder.encode(word);
        const whole = preTokenizer.words === 'whole' ? wholeWord(bytes, alphabet, vocabulary) : undefined;
        if (whole !== undefined) ids.push(whole);
        else mergeBytes(bytes, byteIds, merges, ids);
      }
    },
  };
}

/**
 * Each pattern cuts every word of the one before into its matches and what is between them. No pattern matches nothing.
 */
export function splitWords(text: string, patterns: readonly RegExp[]): string[] {
  let words = [text];
  for (const pattern of patterns) {
    const parts: string[] = [];
    for (const word of words) pushMatches(word, pattern, parts);
    words = parts;
  }
  return words;
}

function pushMatches(word: string, pattern: RegExp, parts: string[]): void {
  let end = 0;
  // Not matchAll, which makes a copy of the pattern for each of many short words.
  pattern.lastIndex = 0;
  for (let found = pattern.exec(word); found; found = pattern.exec(word)) {
    const [match] = found;
    assert(match.length > 0, `${pattern} matched nothing`);
    if (found.index > end) parts.push(word.slice(end, found.index));
    parts.push(match);
    end = found.index + match.length;
  }
  if (end < word.length) parts.push(word.slice(end));
}

function wholeWord(bytes: Uint8Array, alphabet: readonly string[], { idOf, kinds }: Vocabulary): number | undefined {
  let token = '';
  for (const byte of bytes) token += alphabet[byte];
  const id = idOf.get(token);
  return id !== undefined && kinds[id] === 'normal' ? id : undefined;
}

/** By pair of ids: the place in the list; and the id that it makes. */
interface Merges {
  readonly rankOf: ReadonlyMap<number, number>;
  readonly made: Int32Array;
}

function mergeBytes(
  bytes: Uint8Array,
  byteIds: readonly (number | undefined)[],
  { rankOf, made }: Merges,
  ids: number[],
): void {
  const symbols: number[] = [];
  for (const byte of bytes) {
    const id = byteIds[byte];
    if (id === undefined)
      throw new StetError('STET_ERR_BAD_REQUEST', `the text has the byte ${byte}, which no token covers`);
    symbols.push(id);
  }
  const next = mergeSymbols(symbols.length, {
    rank: (left, right) => rankOf.get(symbols[left]! * IDS + symbols[right]!) ?? -1,
    merge: (left, _right, rank) => {
      symbols[left] = made[rank]!;
    },
  });
  for (let i = 0; i < symbols.length; i = next[i]!) ids.push(symbols[i]!);
}

function readMerges(metadata: GgufMetadata, { idOf }: Vocabulary): Merges {
  const list = stringsField(metadata, 'tokenizer.ggml.merges');
  if (!list) badTokenizer('has no tokenizer.ggml.merges');
  if (list.length > IDS) badTokenizer(`has ${list.length} merges, at most ${IDS} are allowed`);
  const rankOf = new Map<number, number>();
  const made = new Int32Array(list.length);
  for (const [rank, merge] of list.entries()) {
    // A space cannot be the first character of a part, so the one after it divides.
    const space = merge.indexOf(' ', 1);
    const left = idOf.get(merge.slice(0, Math.max(0, space)));
    const right = idOf.get(merge.slice(space + 1));
    const both =
      left === undefined || right === undefined ? undefined : idOf.get(merge.slice(0, space) + merge.slice(space + 1));
    if (both === undefined) badTokenizer(`has the merge ${quote(merge)}, and a part of it or the whole is no token`);
    const pair = left! * IDS + right!;
    if (rankOf.has(pair)) badTokenizer(`has the merge ${quote(merge)} twice`);
    rankOf.set(pair, rank);
    made[rank] = both;
  }
  return { rankOf, made };
}
