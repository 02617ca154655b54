import { quote } from '../../files/quote.js';
import type { ChatTemplate } from '../../text/chat-template.js';
import type { Tokenizer } from '../../text/tokenizer.js';
import type { GgufMetadata } from '../metadata-value.js';
import { badTokenizer } from './bad-tokenizer.js';
import { byteLevelEncoding } from './byte-level-encoder.js';
import { ggufChatTemplate } from './gguf-chat-template.js';
import { ggufTokenizer } from './gguf-tokenizer.js';
import { stringField } from './metadata-fields.js';
import { preTokenizer } from './pre-tokenizers.js';
import { sentencepieceEncoding } from './sentencepiece-encoder.js';
import { readSpecialTokens } from './special-tokens.js';
import { readVocabulary, type Vocabulary } from './vocabulary.js';

/** The text half of a GGUF file. */
export interface GgufText {
  readonly tokenizer: Tokenizer;
  readonly chatTemplate?: ChatTemplate;
  readonly bosId?: number;
  /** Tokens that end an answer, ascending. */
  readonly eosIds: readonly number[];
}

/**
 * Reads the tokenizer and the chat template from a GGUF file's metadata. `vocabSize` is the model's, the rows of its
 * embedding: the file may have fewer tokens. Throws `STET_ERR_BAD_TOKENIZER`, also for a kind of tokenizer or a
 * pre-tokenizer that is not supported, or `STET_ERR_BAD_CHAT_TEMPLATE`.
 */
export function ggufText(metadata: GgufMetadata, model: { readonly vocabSize: number }): GgufText {
  const kind = stringField(metadata, 'tokenizer.ggml.model');
  const read = kind === undefined ? undefined : readers.get(kind);
  if (!read) {
    const supported = `supported are ${[...readers.keys()].join(', ')}`;
    badTokenizer(`has ${kind === undefined ? 'no tokenizer' : `a tokenizer of the kind ${quote(kind)}`}; ${supported}`);
  }
  const vocabulary = readVocabulary(metadata, model.vocabSize);
  const { tokenizer, special } = read(metadata, vocabulary);
  const chatTemplate = ggufChatTemplate(metadata, vocabulary, special);
  return {
    tokenizer,
    ...(chatTemplate && { chatTemplate }),
    ...(special.bosId !== undefined && { bosId: special.bosId }),
    eosIds: special.eosIds,
  };
}

type Special = ReturnType<typeof readSpecialTokens>;
type Reader = (metadata: GgufMetadata, vocabulary: Vocabulary) => { tokenizer: Tokenizer; special: Special };

/** By `tokenizer.ggml.model`. */
const readers: ReadonlyMap<string, Reader> = new Map([
  ['gpt2', readByteLevel],
  ['llama', readSentencepiece],
]);

function readByteLevel(metadata: GgufMetadata, vocabulary: Vocabulary): ReturnType<Reader> {
  const pre = stringField(metadata, 'tokenizer.ggml.pre');
  const cutter = preTokenizer(pre);
  const special = readSpecialTokens(metadata, vocabulary, { bos: cutter.bos });
  const encoding = byteLevelEncoding(metadata, vocabulary, cutter);
  const tokenizer = ggufTokenizer({
    kind: `gpt2 (${pre})`,
    vocabulary,
    special,
    encoding,
    spelling: 'byteLevel',
    trailingSpace: () => 'keep',
  });
  return { tokenizer, special };
}

function readSentencepiece(metadata: GgufMetadata, vocabulary: Vocabulary): ReturnType<Reader> {
  const special = readSpecialTokens(metadata, vocabulary, { bos: 'add', bosId: 1, eosId: 2, unknownId: 0 });
  const encoding = sentencepieceEncoding(metadata, vocabulary);
  const trailingSpace = trailingSpaceRule(metadata, vocabulary);
  const parts = { vocabulary, special, encoding, trailingSpace };
  return { tokenizer: ggufTokenizer({ ...parts, kind: 'llama', spelling: 'marked' }), special };
}

/** Phi-3's special tokens take in the white space after them. Its files do not say so; llama.cpp knows it as well. */
function trailingSpaceRule(metadata: GgufMetadata, { tokens }: Vocabulary): (id: number) => 'keep' | 'strip' {
  if (stringField(metadata, 'general.architecture') !== 'phi3') return () => 'keep';
  const keeping = new Set(['<unk>', '<s>', '<|endoftext|>']);
  return (id) => (keeping.has(tokens[id]!) ? 'keep' : 'strip');
}
