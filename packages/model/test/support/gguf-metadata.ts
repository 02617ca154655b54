import type { GgufMetadata, GgufValue } from '../../src/gguf/metadata-value.js';

/** Metadata of plain entries; an entry of undefined is left out. */
export function ggufMetadata(entries: Readonly<Record<string, GgufValue | undefined>>): GgufMetadata {
  const map = new Map<string, GgufValue>();
  for (const [key, value] of Object.entries(entries)) if (value !== undefined) map.set(key, value);
  return map;
}

type Entries = Record<string, GgufValue>;

interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

interface TokenizerJson {
  readonly added_tokens: readonly AddedToken[];
  readonly model: {
    readonly vocab: Readonly<Record<string, number>>;
    readonly merges: readonly (string | readonly [string, string])[];
  };
}

const TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** What llama.cpp's converter writes for a byte-level tokenizer.json: tokens, their types, merges. */
export function byteLevelEntries(json: unknown, pre: string): Entries {
  const { tokens, types } = tokenTable(json as TokenizerJson);
  return {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': pre,
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': types,
    'tokenizer.ggml.merges': mergesOf(json as TokenizerJson).map((pair) => pair.join(' ')),
  };
}

/**
 * What the converter writes for a SentencePiece model, from the tokenizer.json made of one: a token's score is minus
 * its place in the list of merges, as sentencepiece numbers them.
 */
export function sentencepieceEntries(json: unknown): Entries {
  const { tokens, types } = tokenTable(json as TokenizerJson);
  const place = new Map<string, number>();
  for (const [rank, [left, right]] of mergesOf(json as TokenizerJson).entries()) {
    const token = left + right;
    if (!place.has(token)) place.set(token, rank);
  }
  const last = place.size;
  for (const [id, token] of tokens.entries()) {
    if (token === '<unk>') types[id] = TYPE.unknown;
    else if (/^<0x[0-9A-F]{2}>$/.test(token)) types[id] = TYPE.byte;
  }
  return {
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.pre': 'default',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': types,
    'tokenizer.ggml.scores': Float32Array.from(tokens, (token, id) =>
      types[id] === TYPE.normal ? -(place.get(token) ?? last + id) : 0,
    ),
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
    'tokenizer.ggml.unknown_token_id': 0,
  };
}

function tokenTable({ added_tokens, model }: TokenizerJson): { tokens: string[]; types: Int32Array } {
  const tokens: string[] = [];
  for (const [token, id] of Object.entries(model.vocab)) tokens[id] = token;
  for (const { id, content } of added_tokens) tokens[id] = content;
  const types = new Int32Array(tokens.length).fill(TYPE.normal);
  for (const [id] of tokens.entries()) {
    if (tokens[id] === undefined) {
      tokens[id] = `[PAD${id}]`;
      types[id] = TYPE.unused;
    }
  }
  for (const { id, special } of added_tokens) types[id] = special ? TYPE.control : TYPE.userDefined;
  return { tokens, types };
}

function mergesOf({ model }: TokenizerJson): [string, string][] {
  return model.merges.map((merge) => (typeof merge === 'string' ? merge.split(' ') : merge) as [string, string]);
}
