import { quote } from '../../files/quote.js';
import { badTokenizer } from './bad-tokenizer.js';

/** How text is cut into the words that tokens are made in. */
export interface PreTokenizer {
  /** Applied one after the other, each within the words of the one before: matches and what is between them are words. */
  readonly patterns: readonly RegExp[];
  readonly normalization: 'NFC' | 'none';
  /** `whole`: a word that is a token is that token, even where merging would not make it. */
  readonly words: 'merge' | 'whole';
  /** Whether a text begins with the bos token where the file does not say. */
  readonly bos: 'add' | 'leave';
}

/**
 * The pre-tokenizer of a name in `tokenizer.ggml.pre`. Patterns are those of the models that the name stands for, as
 * src/llama-vocab.cpp of llama.cpp quotes them; names whose patterns it only approximates are not supported. A GGUF
 * file does not say how text is normalized, so that is part of the name's meaning too: `NFC` where the tokenizer.json
 * of its models has it. (llama.cpp leaves text alone there, and so differs from the models on text that is not NFC.)
 * Throws `STET_ERR_BAD_TOKENIZER` for another name, and where there is none: llama.cpp guesses then, and warns.
 */
export function preTokenizer(name: string | undefined): PreTokenizer {
  const kind = name === undefined ? undefined : kindOf.get(name);
  if (kind) return compile(kind);
  const problem =
    name === undefined
      ? 'does not name its pre-tokenizer (tokenizer.ggml.pre): it is of an old converter, convert the model again'
      : `has the pre-tokenizer ${quote(name)}`;
  return badTokenizer(`${problem}; supported are ${[...kindOf.keys()].sort().join(', ')}`);
}

interface Kind {
  readonly names: readonly string[];
  readonly patterns: readonly string[];
  readonly normalization?: 'NFC';
  readonly words?: 'whole';
  readonly bos?: 'add';
}

/** What (?i:'s|'t|'re|'ve|'m|'ll|'d) matches: of these letters, s alone has a third form that folds to it. */
const contractions = "'[sS\u017f]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]";
const gpt2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const digit = String.raw`\p{N}`;

/** The pattern of cl100k, which differs by how many digits make a word. */
const cl100k = (digits: string): string =>
  String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

/** The pattern of o200k, which tells upper from lower case; `ending` may follow a word. */
const o200k = (digits: string, ending: string): string => {
  const [upper, lower] = [String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`];
  const word = (letters: string): string => String.raw`[^\r\n\p{L}\p{N}]?${letters}${ending}`;
  return String.raw`${word(`${upper}*${lower}+`)}|${word(`${upper}+${lower}*`)}|${digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
};

// Escaped, because some of these letters are not in NFC and an editor might make them so.
const deepseekLetters = [
  String.raw`A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF`,
  String.raw`\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5`,
  String.raw`\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA`,
  String.raw`\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45`,
  String.raw`\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE`,
  String.raw`\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102`,
  String.raw`\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139`,
  String.raw`\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3`,
  String.raw`\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06`,
  String.raw`\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}`,
  String.raw`\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\u{118A0}-\u{118DF}\u{1E900}-\u{1E943}`,
].join('');
/** The ranges are those of the models, U+0800 to U+4E00 included: they learnt that. */
const deepseekCjk = String.raw`[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+`;

const kinds: readonly Kind[] = [
  {
    names: ['gpt-2', 'phi-2', 'exaone4', 'gigachat', 'a.x-4.0', 'mellum', 'jais', 'trillion', 'granite-docling'],
    patterns: [gpt2],
  },
  { names: ['olmo', 'mpt'], patterns: [gpt2], normalization: 'NFC' },
  { names: ['smollm', 'starcoder', 'refact', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'], patterns: [digit, gpt2] },
  { names: ['command-r'], patterns: [digit, gpt2], normalization: 'NFC' },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'pixtral', 'midm-2.0', 'lfm2'],
    patterns: [cl100k(String.raw`\p{N}{1,3}`)],
    words: 'whole',
    bos: 'add',
  },
  { names: ['dbrx', 'smaug-bpe'], patterns: [cl100k(String.raw`\p{N}{1,3}`)] },
  { names: ['qwen2'], patterns: [cl100k(digit)], normalization: 'NFC' },
  { names: ['deepseek-r1-qwen', 'megrez', 'hunyuan', 'solar-open'], patterns: [cl100k(digit)] },
  {
    names: ['qwen35'],
    patterns: [
      String.raw`${contractions}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
    ],
    normalization: 'NFC',
  },
  { names: ['tekken'], patterns: [o200k(digit, '')], words: 'whole', bos: 'add' },
  {
    names: ['gpt-4o', 'llama4', 'kanana2', 'minimax-m2'],
    patterns: [o200k(String.raw`\p{N}{1,3}`, `(?:${contractions})?`)],
  },
  {
    names: ['deepseek-llm'],
    patterns: [
      String.raw`[\r\n]`,
      String.raw`\s?[${deepseekLetters}]+`,
      String.raw`\s?[!-\/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+`,
      // From the start of a run only: the same matches as \s+$, in time in proportion to the text.
      String.raw`(?<!\s)\s+$`,
      deepseekCjk,
      String.raw`\p{N}+`,
    ],
  },
  {
    names: ['deepseek-coder'],
    patterns: [String.raw`[\r\n]`, String.raw`\s?\p{L}+`, String.raw`\s?\p{P}+`, deepseekCjk, digit],
  },
  {
    names: ['deepseek-v3', 'hunyuan-dense', 'joyai-llm'],
    patterns: [
      String.raw`\p{N}{1,3}`,
      String.raw`[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+`,
      String.raw`[!"#$%&'()*+,\-.\/:;<=>?@\[\\\]^_\x60{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
    ],
  },
  {
    names: ['falcon'],
    patterns: [String.raw`[\p{P}\$\+<=>\^~\|\x60]+`, gpt2, '[0-9][0-9][0-9]'],
  },
  {
    // What llama.cpp calls default, and what it uses for files that name none.
    names: ['default'],
    patterns: [String.raw`[\p{P}\$\+<=>\^~\|]+`, gpt2, String.raw`\p{N}+`, '[0-9][0-9][0-9]'],
  },
  {
    names: ['seed-coder'],
    patterns: [
      String.raw`${contractions}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`,
    ],
  },
];

const kindOf: ReadonlyMap<string, Kind> = new Map(kinds.flatMap((kind) => kind.names.map((name) => [name, kind])));

function compile({ patterns, normalization, words, bos }: Kind): PreTokenizer {
  return {
    patterns: patterns.map((pattern) => new RegExp(unicodeSpaces(pattern), 'gu')),
    normalization: normalization ?? 'none',
    words: words ?? 'merge',
    bos: bos ?? 'leave',
  };
}

/** In Rust and in llama.cpp, `\s` is Unicode's White_Space; in JavaScript it has U+FEFF and lacks U+0085. */
function unicodeSpaces(pattern: string): string {
  return pattern
    .replaceAll(String.raw`\s`, String.raw`\p{White_Space}`)
    .replaceAll(String.raw`\S`, String.raw`\P{White_Space}`);
}
