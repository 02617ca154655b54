/**
 * Patterns of tokenizer.json that many models share. Each takes time in proportion to a text's length, as long as the
 * text is: wherever one of its alternatives looks far ahead in vain, another takes all that was looked at. Gives the
 * pattern to run by the one in the file.
 */
export function knownPatterns(): ReadonlyMap<string, string> {
  return new Map([...allPatterns()].map((pattern) => [pattern, asRun(pattern)]));
}

function asRun(pattern: string): string {
  if (pattern === trailingSpaces) return fromRunStart;
  // The library folds ASCII's letters only; the one other letter that folds to one of these is the long s.
  return pattern.replaceAll("(?i:'s|", "(?i:'ſ|'s|").replaceAll('(?i:[sdmt]|', '(?i:[sdmtſ]|');
}

/** What GPT-2 cuts text by. */
export const gpt2Pattern = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

/** DeepSeek's space at the end of a text; and the same matches without a look ahead from every space of a run. */
const trailingSpaces = String.raw`\s+$`;
const fromRunStart = String.raw`(?<!\s)\s+$`;

function* allPatterns(): Iterable<string> {
  const contractions = [
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    "'(?i:[sdmt]|ll|ve|re)",
    "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
  ];
  const digits = [
    String.raw`\p{N}`,
    String.raw`\p{N}{1}`,
    String.raw`\p{N}{1,2}`,
    String.raw`\p{N}{1,3}`,
    String.raw`\p{N}+`,
  ];
  const spaces = String.raw`\s+(?!\S)|\s+`;
  // GPT-2 and what follows it: StarCoder, OLMo, GPT-NeoX, SmolLM, Granite, …
  for (const start of ["'s|'t|'re|'ve|'m|'ll|'d", "'(?:[sdmt]|ll|ve|re)", `(?i:'s|'t|'re|'ve|'m|'ll|'d)`])
    yield String.raw`${start}| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|${spaces}`;
  // cl100k: Llama 3, Qwen 2 and 3, DBRX, OLMo 2, Phi-4, Falcon 3, …; with possessive quantifiers as tiktoken has it.
  for (const start of contractions) {
    for (const number of digits) {
      for (const lines of [String.raw`\s*[\r\n]+`, String.raw`\s*[\r\n]`]) {
        yield String.raw`${start}|[^\r\n\p{L}\p{N}]?\p{L}+|${number}| ?[^\s\p{L}\p{N}]+[\r\n]*|${lines}|${spaces}`;
        yield String.raw`${start}|[^\r\n\p{L}\p{N}]?+\p{L}+|${number}| ?[^\s\p{L}\p{N}]++[\r\n]*|${lines}|${spaces}`;
      }
    }
  }
  // Qwen 3.5, whose words may have marks.
  yield String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|${spaces}`;
  // Seed-Coder
  yield String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^${'\r\n'}\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}${'\r\n'}]+|\s*[${'\r\n'}]+|${spaces}`;
  // o200k: GPT-4o, Llama 4; and without contractions Mistral's Tekken.
  const [upper, lower] = [String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`];
  for (const ending of ['', ...contractions.map((start) => `${start}?`)]) {
    for (const number of digits) {
      const words = [`${upper}*${lower}+`, `${upper}+${lower}*`].map(
        (letters) => String.raw`[^\r\n\p{L}\p{N}]?${letters}${ending}`,
      );
      yield String.raw`${words.join('|')}|${number}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|${spaces}`;
    }
  }
  // DeepSeek V3
  yield String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+|[^${'\r\n'}\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[${'\r\n'}]*|\s*[${'\r\n'}]+|${spaces}`;
  yield String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|${spaces}`;
  // Bloom, with a class in a class as it stands in the file.
  yield String.raw` ?[^(\s|[.,!?…。，、।۔،])]+`;
  yield trailingSpaces;
}
