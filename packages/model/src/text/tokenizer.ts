import { Tokenizer as Library } from '@huggingface/tokenizers';
import { StetError } from '@stet/backend';
import { z } from 'zod';
import { parseConfig } from '../config/config-error.js';
import { causeMessage, quote } from '../files/quote.js';
import { guardPatterns } from './pattern-guard.js';
import { decodeAtOnce } from './stream-decoder.js';
import { decoderRule, type TokenPieces, tokenPieces } from './token-pieces.js';

/** Text to token ids and back. Pure; the same for every request. */
export interface Tokenizer {
  /** As its file names it: `BPE` or `Unigram` of tokenizer.json; `llama`, or `gpt2` with its pre-tokenizer, of a GGUF file. */
  readonly kind: string;
  /** One more than the largest id. */
  readonly vocabSize: number;
  /** Ids that stand for no text: begin, end, turn marks, … */
  readonly specialIds: ReadonlySet<number>;
  /**
   * Token ids of a text. `addSpecialTokens` puts in front what the model expects before a text (see
   * {@link TokenizerOptions.beginning}); leave it off for a rendered chat template, which writes its own.
   * Throws `STET_ERR_BAD_REQUEST` for a text with a token that the model has no embedding for.
   */
  encode(text: string, options: { readonly addSpecialTokens: boolean }): number[];
  /** The text of ids; U+FFFD stands for bytes that are no UTF-8. Ids that no token has give no text. */
  decode(ids: Iterable<number>, options: { readonly skipSpecialTokens: boolean }): string;
  /** The id of a token by its string in the vocabulary, e.g. `<|im_end|>`. */
  idOf(token: string): number | undefined;
  /** What each token adds to a text; see {@link createStreamDecoder}. */
  readonly pieces: TokenPieces;
}

export interface TokenizerOptions {
  /** The model's vocabulary: `encode` refuses ids from here on. By default the tokenizer's own. */
  readonly idLimit?: number;
  /**
   * A token, by string or id, that `encode` puts in front when special tokens are asked for and the post-processor of
   * tokenizer.json did not put it there already. The post-processor decides first; this is `add_bos_token` of
   * tokenizer_config.json.
   */
  readonly beginning?: string | number;
}

/** Ids are indices of arrays: a huge one would take memory and time that the file's size does not show. */
const MAX_ID = 2 ** 22;
const tokenId = z.number().int().min(0).max(MAX_ID);
const addedToken = z.looseObject({ id: tokenId, content: z.string().min(1), special: z.boolean().optional() });
const schema = z.looseObject({
  added_tokens: z.array(addedToken).nullish(),
  // The oldest files do not say that they are BPE.
  model: z.looseObject({ type: z.enum(['BPE', 'Unigram']).default('BPE'), vocab: z.unknown().optional() }),
  normalizer: z.unknown().optional(),
  pre_tokenizer: z.unknown().optional(),
  post_processor: z.unknown().optional(),
  decoder: z.unknown().optional(),
});

/** A tokenizer from the parsed tokenizer.json. Throws `STET_ERR_BAD_TOKENIZER`. */
export function createTokenizer(json: unknown, options: TokenizerOptions = {}): Tokenizer {
  const parsed = parseConfig(schema, json, 'tokenizer.json', 'STET_ERR_BAD_TOKENIZER');
  const added = parsed.added_tokens ?? [];
  const vocabSize = added.reduce((size, { id }) => Math.max(size, id + 1), vocabularySize(parsed.model.vocab));
  const steps = {
    normalizer: guardPatterns(parsed.normalizer ?? null),
    pre_tokenizer: guardPatterns(parsed.pre_tokenizer ?? null),
  };
  const library = createLibrary({ ...parsed, ...steps }, added);
  const specialIds = new Set(added.filter((token) => token.special).map((token) => token.id));
  const pieces = tokenPieces(decoderRule(parsed.decoder), {
    tokenOf: (id) => library.id_to_token(id),
    addedIds: new Set(added.map((token) => token.id)),
  });
  const { idLimit = vocabSize } = options;
  const beginning = beginningId(options.beginning, library);
  return {
    kind: parsed.model.type,
    vocabSize,
    specialIds,
    pieces,
    encode: (text, { addSpecialTokens }) => {
      const ids = encodeWith(library, text, addSpecialTokens);
      if (addSpecialTokens && beginning !== undefined && ids[0] !== beginning) ids.unshift(beginning);
      for (const id of ids) checkId(id, idLimit, library);
      return ids;
    },
    decode: (ids, { skipSpecialTokens }) =>
      decodeAtOnce({ pieces, specialIds }, ids, skipSpecialTokens ? 'skip' : 'keep'),
    idOf: (token) => library.token_to_id(token),
  };
}

/** One more than the largest id of a vocabulary: token to id (BPE, WordPiece), or [token, score] by id (Unigram). */
function vocabularySize(vocab: unknown): number {
  if (Array.isArray(vocab)) {
    const isPair = (entry: unknown): boolean =>
      Array.isArray(entry) && typeof entry[0] === 'string' && Number.isFinite(entry[1]);
    if (!vocab.every(isPair)) badVocabulary('an entry that is not a token and its score');
    return vocab.length;
  }
  if (typeof vocab !== 'object' || vocab === null) badVocabulary('neither tokens by id nor ids by token');
  let size = 0;
  for (const id of Object.values(vocab) as unknown[]) {
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) > MAX_ID) badVocabulary(`the id ${quote(id)}`);
    size = Math.max(size, (id as number) + 1);
  }
  return size;
}

function badVocabulary(what: string): never {
  throw new StetError('STET_ERR_BAD_TOKENIZER', `tokenizer.json: model.vocab has ${what}`);
}

/** A normalizer or pre-tokenizer that is malformed shows only when it is used. */
function encodeWith(library: Library, text: string, addSpecialTokens: boolean): number[] {
  try {
    return library.encode(text, { add_special_tokens: addSpecialTokens }).ids;
  } catch (cause) {
    throw new StetError('STET_ERR_BAD_TOKENIZER', `tokenizer.json cannot encode: ${causeMessage(cause)}`, {
      cause,
    });
  }
}

function beginningId(beginning: string | number | undefined, library: Library): number | undefined {
  if (typeof beginning !== 'string') return beginning;
  const id = library.token_to_id(beginning);
  if (id === undefined) {
    throw new StetError('STET_ERR_BAD_TOKENIZER', `tokenizer.json does not have the bos token ${quote(beginning)}`);
  }
  return id;
}

function createLibrary(json: z.infer<typeof schema>, added: readonly z.infer<typeof addedToken>[]): Library {
  const { normalizer = null, pre_tokenizer = null, post_processor = null, decoder = null } = json;
  try {
    // The library's second argument is tokenizer_config.json; nothing in it may change what tokenizer.json says.
    return new Library({ ...json, added_tokens: added, normalizer, pre_tokenizer, post_processor, decoder }, {});
  } catch (cause) {
    throw new StetError('STET_ERR_BAD_TOKENIZER', `tokenizer.json cannot be used: ${causeMessage(cause)}`, {
      cause,
    });
  }
}

/** The library gives null or undefined for text that no token covers where there is no unknown token. */
function checkId(id: number | null | undefined, idLimit: number, library: Library): void {
  if (typeof id !== 'number')
    throw new StetError('STET_ERR_BAD_REQUEST', 'the text has a character that no token covers');
  if (id >= idLimit) {
    const token = quote(library.id_to_token(id));
    throw new StetError(
      'STET_ERR_BAD_REQUEST',
      `the text has the token ${token} (id ${id}), which the model does not know`,
    );
  }
}
