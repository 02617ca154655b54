import type { GgufMetadata } from '../metadata-value.js';
import { badTokenizer } from './bad-tokenizer.js';
import { booleanField, idField } from './metadata-fields.js';
import { isAdded, type Vocabulary } from './vocabulary.js';

/** The roles that tokens play for a model. */
export interface SpecialTokens {
  readonly bosId?: number;
  readonly eosId?: number;
  readonly padId?: number;
  readonly unknownId?: number;
  /** Every token that ends an answer, ascending. */
  readonly eosIds: readonly number[];
  /** What `encode` puts around a text when it is asked for special tokens. */
  readonly beginningId?: number;
  readonly endingId?: number;
}

/** What is true of a kind of tokenizer where a file does not say. */
export interface SpecialTokenDefaults {
  readonly bos: 'add' | 'leave';
  readonly bosId?: number;
  readonly eosId?: number;
  readonly unknownId?: number;
}

/**
 * Special tokens that end an answer by what they say, because few files name them all: the list of llama.cpp
 * (src/llama-vocab.cpp, `special_eog_ids` and the texts of eot, eom, fim_pad, fim_rep and fim_sep). Unlike there, a
 * token that the file calls ordinary text ends nothing.
 */
const endingTexts: readonly string[] = [
  ...['<|eot_id|>', '<|im_end|>', '<|end|>', '<|return|>', '<|call|>', '<|flush|>', '<|calls|>', '<end_of_turn>'],
  ...['<|endoftext|>', '</s>', '<|eom_id|>', '<EOT>', '_<EOT>', '[EOT]', '[EOS]', '<|end_of_text|>'],
  ...['<end_of_utterance>', '<eos>', '<turn|>', '<|tool_response>', '<｜end▁of▁sentence｜>', '[e~['],
  ...['<|fim_pad|>', '<fim-pad>', '<fim_pad>', '<PAD>', '[PAD]'],
  ...['<|fim_repo|>', '<|repo_name|>', '<fim-repo>', '<REPO>', '<reponame>', '<|file_sep|>'],
];

/** Throws `STET_ERR_BAD_TOKENIZER` for an id outside the vocabulary, or one that is needed and missing. */
export function readSpecialTokens(
  metadata: GgufMetadata,
  vocabulary: Vocabulary,
  defaults: SpecialTokenDefaults,
): SpecialTokens {
  const count = vocabulary.tokens.length;
  const read = (role: string, fallback?: number): number | undefined => {
    const id = idField(metadata, `tokenizer.ggml.${role}_token_id`, count);
    return id ?? (fallback !== undefined && fallback < count ? fallback : undefined);
  };
  const bosId = read('bos', defaults.bosId);
  const eosId = read('eos', defaults.eosId);
  const padId = read('padding');
  const unknownId = read('unknown', defaults.unknownId);
  const named = [eosId, ...['eot', 'eom', 'fim_pad', 'fim_rep', 'fim_sep'].map((role) => read(role))];
  const addBos = booleanField(metadata, 'tokenizer.ggml.add_bos_token') ?? defaults.bos === 'add';
  const addEos = booleanField(metadata, 'tokenizer.ggml.add_eos_token') ?? false;
  if (booleanField(metadata, 'tokenizer.ggml.add_sep_token'))
    badTokenizer('has tokenizer.ggml.add_sep_token: it separates pairs of texts, which is not supported');
  if (addBos && bosId === undefined) badTokenizer('adds a bos token to texts, and does not say which it is');
  if (addEos && eosId === undefined) badTokenizer('adds an eos token to texts, and does not say which it is');
  return {
    ...(bosId !== undefined && { bosId }),
    ...(eosId !== undefined && { eosId }),
    ...(padId !== undefined && { padId }),
    ...(unknownId !== undefined && { unknownId }),
    eosIds: endingIds(vocabulary, named),
    ...(addBos && bosId !== undefined && { beginningId: bosId }),
    ...(addEos && eosId !== undefined && { endingId: eosId }),
  };
}

function endingIds({ idOf, kinds }: Vocabulary, named: readonly (number | undefined)[]): number[] {
  const ids = new Set(named.filter((id) => id !== undefined));
  for (const text of endingTexts) {
    const id = idOf.get(text);
    if (id !== undefined && isAdded(kinds[id]!)) ids.add(id);
  }
  // Where a model has a token that ends its answer after <|end|>, that one only ends a part of it.
  const has = (text: string): boolean => ids.has(idOf.get(text) ?? -1);
  const harmony = has('<|return|>') && has('<|call|>');
  const solar = has('<|flush|>') && (has('<|call|>') || has('<|calls|>'));
  const end = idOf.get('<|end|>');
  if ((harmony || solar) && end !== undefined) ids.delete(end);
  return [...ids].sort((a, b) => a - b);
}
