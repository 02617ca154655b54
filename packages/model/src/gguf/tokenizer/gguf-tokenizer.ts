import { byteLevelBytes, byteLevelTable } from '../../text/byte-level.js';
import { decodeAtOnce } from '../../text/stream-decoder.js';
import type { TokenPieces } from '../../text/token-pieces.js';
import type { Tokenizer } from '../../text/tokenizer.js';
import { addedTokenSplitter } from './added-tokens.js';
import type { SpecialTokens } from './special-tokens.js';
import type { TextEncoding } from './text-encoding.js';
import { byteOf, type Vocabulary } from './vocabulary.js';

export interface GgufTokenizerParts {
  readonly kind: string;
  readonly vocabulary: Vocabulary;
  readonly special: SpecialTokens;
  readonly encoding: TextEncoding;
  /** How the tokens of the vocabulary are written. */
  readonly spelling: 'byteLevel' | 'marked';
  /** White space that follows such a special token in a text belongs to it. */
  readonly trailingSpace: (id: number) => 'keep' | 'strip';
}

/** A {@link Tokenizer} of the parts that a GGUF file describes. */
export function ggufTokenizer(parts: GgufTokenizerParts): Tokenizer {
  const { vocabulary, special, encoding } = parts;
  const { tokens, kinds, idOf } = vocabulary;
  const split = addedTokenSplitter(vocabulary, parts.trailingSpace);
  const pieces = vocabularyPieces(parts);
  const specialIds = new Set(special.eosIds);
  for (const [id, kind] of kinds.entries()) if (kind === 'control' || kind === 'unknown') specialIds.add(id);
  return {
    kind: parts.kind,
    vocabSize: tokens.length,
    specialIds,
    pieces,
    encode: (text, { addSpecialTokens }) => {
      const ids: number[] = [];
      // A lone surrogate has no bytes of its own.
      for (const part of split(text.replaceAll(/\p{Surrogate}/gu, '\ufffd'))) {
        if (part.kind === 'token') ids.push(part.id);
        else encoding.encode(part.text, ids);
      }
      if (addSpecialTokens) {
        const { beginningId, endingId } = special;
        if (beginningId !== undefined && ids[0] !== beginningId) ids.unshift(beginningId);
        if (endingId !== undefined && ids.at(-1) !== endingId) ids.push(endingId);
      }
      return ids;
    },
    decode: (ids, { skipSpecialTokens }) =>
      decodeAtOnce({ pieces, specialIds }, ids, skipSpecialTokens ? 'skip' : 'keep'),
    idOf: (token) => idOf.get(token),
  };
}

function vocabularyPieces({ vocabulary, encoding, spelling }: GgufTokenizerParts): TokenPieces {
  const { tokens, kinds } = vocabulary;
  const encoder = new TextEncoder();
  const byteTable = byteLevelTable();
  return {
    leadingSpaces: encoding.leadingSpaces,
    bytes: (id) => {
      const token = tokens[id];
      if (token === undefined) return undefined;
      switch (kinds[id]!) {
        case 'unused':
          return undefined;
        case 'byte':
          return Uint8Array.of(byteOf(token)!);
        case 'control':
        case 'unknown':
        case 'userDefined':
          return encoder.encode(token);
        case 'normal':
          return spelling === 'marked'
            ? encoder.encode(token.replaceAll('▁', ' '))
            : (byteLevelBytes(token, byteTable) ?? encoder.encode(token));
      }
    },
  };
}
