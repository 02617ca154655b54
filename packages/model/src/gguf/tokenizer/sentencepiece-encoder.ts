import { StetError } from '@stet/backend';
import type { GgufMetadata } from '../metadata-value.js';
import { badTokenizer } from './bad-tokenizer.js';
import { mergeSymbols } from './merge-symbols.js';
import { booleanField, numbersField } from './metadata-fields.js';
import type { TextEncoding } from './text-encoding.js';
import { byteOf, type Vocabulary } from './vocabulary.js';

/** What stands for a space. */
const MARK = '▁';

/**
 * SentencePiece's BPE (`tokenizer.ggml.model` = llama), as sentencepiece and llama.cpp do it: of all neighbours whose
 * text together is a token, those of the highest score merge first, the leftmost among equals. A character that is no
 * token becomes its bytes, or the unknown token in a vocabulary without bytes. Throws `STET_ERR_BAD_TOKENIZER`.
 */
export function sentencepieceEncoding(metadata: GgufMetadata, vocabulary: Vocabulary): TextEncoding {
  refuseNormalization(metadata);
  const ranks = scoreRanks(metadata, vocabulary);
  const idOf = formableTokens(vocabulary);
  let longest = 0;
  for (const token of idOf.keys()) longest = Math.max(longest, token.length);
  const fallback = characterFallback(vocabulary);
  const prefix = booleanField(metadata, 'tokenizer.ggml.add_space_prefix') ?? true;
  return {
    leadingSpaces: prefix ? 1 : 0,
    encode: (text, ids) => {
      const marked = (prefix ? MARK : '') + text.replaceAll(' ', MARK);
      let before: 'known' | 'unknown' = 'known';
      for (const piece of mergedPieces(marked, { idOf, ranks, longest })) {
        const id = idOf.get(piece);
        if (id !== undefined) ids.push(id);
        // A run of unknown characters is one unknown piece, as in sentencepiece.
        else if (fallback.kind === 'bytes' || before === 'known') ids.push(...fallback.idsOf(piece));
        before = id === undefined ? 'unknown' : 'known';
      }
    },
  };
}

interface ScoredTokens {
  readonly idOf: ReadonlyMap<string, number>;
  readonly ranks: Uint32Array;
  /** UTF-16 units of the longest token: no longer text is looked up. */
  readonly longest: number;
}

function mergedPieces(text: string, { idOf, ranks, longest }: ScoredTokens): string[] {
  const starts: number[] = [];
  for (let at = 0; at < text.length; at += text.codePointAt(at)! > 0xffff ? 2 : 1) starts.push(at);
  const count = starts.length;
  starts.push(text.length);
  /** Index of the symbol after each symbol. */
  const after = starts.map((_, i) => i + 1);
  const next = mergeSymbols(count, {
    rank: (left, right) => {
      const start = starts[left]!;
      const end = starts[after[right]!]!;
      if (end - start > longest) return -1;
      const id = idOf.get(text.slice(start, end));
      return id === undefined ? -1 : ranks[id]!;
    },
    merge: (left, right) => {
      after[left] = after[right]!;
    },
  });
  const pieces: string[] = [];
  for (let i = 0; i < count; i = next[i]!) pieces.push(text.slice(starts[i]!, starts[next[i]!]!));
  return pieces;
}

/** Scores as ranks: 0 is the highest, equal scores have equal ranks. */
function scoreRanks(metadata: GgufMetadata, { tokens }: Vocabulary): Uint32Array {
  const scores = numbersField(metadata, 'tokenizer.ggml.scores', tokens.length);
  if (!scores) badTokenizer('has no tokenizer.ggml.scores, which tokens of the kind llama are merged by');
  for (const [id, score] of scores.entries()) {
    if (!Number.isFinite(score)) badTokenizer(`has ${score} as the score of token ${id}`);
  }
  // Adding 0 makes one of the two zeros, which are equal scores.
  const distinct = [...new Set(Array.from(scores, (score) => score + 0))].sort((a, b) => b - a);
  const rankOf = new Map(distinct.map((score, rank) => [score, rank]));
  return Uint32Array.from(scores, (score) => rankOf.get(score + 0)!);
}

/** Tokens that text may become by merging; control tokens, the unknown one and bytes never come from text. */
function formableTokens({ tokens, kinds }: Vocabulary): Map<string, number> {
  const formable = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    const kind = kinds[id]!;
    if (token !== '' && (kind === 'normal' || kind === 'userDefined' || kind === 'unused')) formable.set(token, id);
  }
  return formable;
}

/** What stands for a character without a token. */
interface Fallback {
  readonly kind: 'bytes' | 'unknown' | 'none';
  idsOf(character: string): readonly number[];
}

function characterFallback({ tokens, kinds }: Vocabulary): Fallback {
  const byteIds = new Map<number, number>();
  for (const [id, kind] of kinds.entries()) {
    if (kind !== 'byte') continue;
    const byte = byteOf(tokens[id]!)!;
    if (byteIds.has(byte)) badTokenizer(`has two tokens for the byte ${byte}`);
    byteIds.set(byte, id);
  }
  if (byteIds.size === 256) {
    const encoder = new TextEncoder();
    return { kind: 'bytes', idsOf: (character) => Array.from(encoder.encode(character), (byte) => byteIds.get(byte)!) };
  }
  if (byteIds.size > 0) badTokenizer(`has tokens for ${byteIds.size} of 256 bytes`);
  const unknown = kinds.indexOf('unknown');
  if (unknown >= 0) return { kind: 'unknown', idsOf: () => [unknown] };
  return {
    kind: 'none',
    idsOf: () => {
      throw new StetError('STET_ERR_BAD_REQUEST', 'the text has a character that no token covers');
    },
  };
}

function refuseNormalization(metadata: GgufMetadata): void {
  const charsmap = metadata.get('tokenizer.ggml.precompiled_charsmap');
  if (charsmap !== undefined && (!ArrayBuffer.isView(charsmap) || charsmap.byteLength > 0))
    badTokenizer('has a tokenizer.ggml.precompiled_charsmap, and normalizing by one is not supported');
  if (booleanField(metadata, 'tokenizer.ggml.remove_extra_whitespaces'))
    badTokenizer('has tokenizer.ggml.remove_extra_whitespaces, which is not supported with tokens of the kind llama');
}
