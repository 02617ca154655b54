import { createTokenizer, type Tokenizer } from '@stet/model';
import { readSharedJson } from './shared-models.js';

export const families = ['llama2-style', 'llama3-style', 'qwen2-style', 'smollm-style', 'unigram'] as const;

export type Family = (typeof families)[number];

export interface TokenizerCase {
  readonly text: string;
  readonly ids: number[];
  readonly idsWithSpecial: number[];
  readonly decoded: string;
  readonly decodedSkipSpecial: string;
}

export function tokenizerCases(family: Family): TokenizerCase[] {
  return readSharedJson<{ cases: TokenizerCase[] }>('tokenizers', family, 'golden.json').cases;
}

export function tokenizerJson(family: Family): Record<string, unknown> {
  return readSharedJson('tokenizers', family, 'tokenizer.json');
}

export function familyTokenizer(family: Family): Tokenizer {
  return createTokenizer(tokenizerJson(family));
}
