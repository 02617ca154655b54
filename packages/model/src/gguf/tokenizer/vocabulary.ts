import { assertNever } from '@stet/backend';
import { quote } from '../../files/quote.js';
import type { GgufMetadata } from '../metadata-value.js';
import { badTokenizer } from './bad-tokenizer.js';
import { numbersField, stringsField } from './metadata-fields.js';

/**
 * What a token is: `normal` text; `unknown` stands for text without a token; `control` is never text; `userDefined` is
 * text that is found before anything else; `unused` is an id without a token; `byte` is one byte, written `<0x0A>`.
 */
export type TokenKind = 'normal' | 'unknown' | 'control' | 'userDefined' | 'unused' | 'byte';

/** The tokens of a GGUF file, checked. */
export interface Vocabulary {
  /** By id; the empty string is a token without text. */
  readonly tokens: readonly string[];
  readonly kinds: readonly TokenKind[];
  /** Every token but empty ones. */
  readonly idOf: ReadonlyMap<string, number>;
}

/** As for tokenizer.json: ids are indices of arrays. */
const MAX_TOKENS = 2 ** 22;
/** The longest token of a known model has 512 characters. */
const MAX_TOKEN_LENGTH = 4096;
/** By `tokenizer.ggml.token_type`, from 1. */
const kindByType: readonly TokenKind[] = ['normal', 'unknown', 'control', 'userDefined', 'unused', 'byte'];

/** Throws `STET_ERR_BAD_TOKENIZER`. `vocabSize`: rows of the model's embedding. */
export function readVocabulary(metadata: GgufMetadata, vocabSize: number): Vocabulary {
  const tokens = stringsField(metadata, 'tokenizer.ggml.tokens');
  if (!tokens || tokens.length === 0) badTokenizer('has no tokenizer.ggml.tokens');
  if (tokens.length > MAX_TOKENS) badTokenizer(`has ${tokens.length} tokens, at most ${MAX_TOKENS} are allowed`);
  if (tokens.length > vocabSize)
    badTokenizer(`has ${tokens.length} tokens, and its model has embeddings for ${vocabSize}`);
  const idOf = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    if (token === '') continue;
    if (token.length > MAX_TOKEN_LENGTH)
      badTokenizer(`has a token of ${token.length} characters (id ${id}), at most ${MAX_TOKEN_LENGTH} are allowed`);
    const first = idOf.get(token);
    if (first !== undefined) badTokenizer(`has the token ${quote(token)} twice, as id ${first} and as id ${id}`);
    idOf.set(token, id);
  }
  return { tokens, kinds: readKinds(metadata, tokens), idOf };
}

function readKinds(metadata: GgufMetadata, tokens: readonly string[]): TokenKind[] {
  const types = numbersField(metadata, 'tokenizer.ggml.token_type', tokens.length);
  if (!types) badTokenizer('has no tokenizer.ggml.token_type: nothing tells special tokens from text');
  const kinds: TokenKind[] = [];
  for (const [id, type] of types.entries()) {
    const kind = kindByType[type - 1];
    if (!kind) badTokenizer(`says that the token ${quote(tokens[id])} (id ${id}) is of type ${type}, known are 1 to 6`);
    if (kind === 'byte' && byteOf(tokens[id]!) === undefined)
      badTokenizer(`says that the token ${quote(tokens[id])} (id ${id}) is a byte`);
    kinds.push(kind);
  }
  return kinds;
}

/** The byte that a token like `<0x0A>` stands for. */
export function byteOf(token: string): number | undefined {
  return /^<0x[0-9A-Fa-f]{2}>$/.test(token) ? Number.parseInt(token.slice(3, 5), 16) : undefined;
}

/** Whether a token is found in a text before it is cut into words, and stands in it as it is written. */
export function isAdded(kind: TokenKind): boolean {
  switch (kind) {
    case 'control':
    case 'unknown':
    case 'userDefined':
      return true;
    case 'normal':
    case 'unused':
    case 'byte':
      return false;
    default:
      return assertNever(kind);
  }
}
