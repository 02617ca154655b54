import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createStreamDecoder, createTokenizer, type Tokenizer } from '@stet/model';
import { loadModelPath } from '@stet/model/node';

export interface TextRow {
  readonly tokenizer: string;
  readonly texts: number;
  readonly 'equal ids': string;
  readonly 'equal decoded text': string;
  readonly 'streamed = decoded at once': string;
}

interface GoldenText {
  readonly text: string;
  readonly ids: number[];
  readonly decoded: string;
}

/** Tokenizers of a folder against recorded ids and texts, and the tokenizers of GGUF files against recorded prompts. */
export async function measureTexts(folder: string): Promise<TextRow[]> {
  const rows: TextRow[] = [];
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    const file = join(path, 'tokenizer.json');
    if (!existsSync(file) || !existsSync(join(path, 'golden.json'))) continue;
    const { cases } = readJson<{ cases: GoldenText[] }>(join(path, 'golden.json'));
    rows.push(textRow(name, createTokenizer(readJson(file)), cases));
  }
  return rows;
}

/** The tokenizer of a GGUF file on the prompts of its golden.json, which have no decoded text: it is the prompt. */
export async function measurePrompts(name: string, path: string, golden: string): Promise<TextRow> {
  const { cases } = readJson<{ cases: { prompt: string; promptIds: number[] }[] }>(golden);
  const model = await loadModelPath(path);
  try {
    const texts = cases.map(({ prompt, promptIds }) => ({ text: prompt, ids: promptIds, decoded: prompt }));
    return textRow(name, model.tokenizer!, texts);
  } finally {
    await model.close();
  }
}

function textRow(name: string, tokenizer: Tokenizer, cases: readonly GoldenText[]): TextRow {
  const count = (isEqual: (one: GoldenText) => boolean): string => {
    const equal = cases.filter(isEqual).length;
    return equal === cases.length ? `all ${equal}` : `${equal} of ${cases.length}`;
  };
  const decode = (ids: readonly number[]): string => tokenizer.decode(ids, { skipSpecialTokens: false });
  return {
    tokenizer: name,
    texts: cases.length,
    'equal ids': count(({ text, ids }) => same(tokenizer.encode(text, { addSpecialTokens: false }), ids)),
    'equal decoded text': count(({ ids, decoded }) => decode(ids) === decoded),
    'streamed = decoded at once': count(({ ids }) => streamed(tokenizer, ids) === decode(ids)),
  };
}

function streamed(tokenizer: Tokenizer, ids: readonly number[]): string {
  const decoder = createStreamDecoder(tokenizer, { specialTokens: 'keep' });
  let state = decoder.initial;
  const parts = ids.map((id) => {
    const step = decoder.next(state, id);
    state = step.state;
    return step.text;
  });
  return parts.join('') + decoder.flush(state);
}

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i]);
}

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(file, 'utf8')) as T;
}
