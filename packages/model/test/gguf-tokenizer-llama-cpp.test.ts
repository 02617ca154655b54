import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openFolder } from '@stet/model/node';
import { describe, expect, it } from 'vitest';
import { readGgufHeader } from '../src/gguf/header/read-header.js';
import { ggufText } from '../src/gguf/tokenizer/gguf-text.js';

/**
 * llama.cpp keeps the vocabularies of real models, texts, and what the models' own tokenizers make of them, in its
 * folder `models`: 100 MB that are not part of this project.
 */
const folder = process.env.STET_LLAMA_CPP ? join(process.env.STET_LLAMA_CPP, 'models') : undefined;
const found = folder && existsSync(folder) ? readdirSync(folder) : [];
const needs = found.length > 0 ? '' : ' (skipped: set STET_LLAMA_CPP to a folder of its sources)';

const names = [
  'command-r',
  'deepseek-coder',
  'deepseek-llm',
  'falcon',
  'gpt-2',
  'llama-bpe',
  'llama-spm',
  'mpt',
  'phi-3',
  'qwen2',
  'qwen35',
  'refact',
  'starcoder',
];
const SEPARATOR = '\n__ggml_vocab_test__\n';

describe.skipIf(found.length === 0)(`vocabularies of llama.cpp${needs}`, () => {
  it.each(names)(
    '%s: every text is encoded as its model does',
    async (name) => {
      const file = `ggml-vocab-${name}.gguf`;
      const source = await openFolder(folder!);
      const { metadata } = await readGgufHeader(source, file).finally(() => source.close());
      const { tokenizer } = ggufText(metadata, { vocabSize: 2 ** 18 });
      const texts = readFileSync(join(folder!, `${file}.inp`), 'utf8').split(SEPARATOR);
      const expected = readFileSync(join(folder!, `${file}.out`), 'utf8').split('\n');
      expect(texts.length).toBeGreaterThan(40);
      for (const [i, text] of texts.entries()) {
        // Written by hand for a vocabulary that is Qwen 2's: Qwen 3.5 normalizes to NFC, and llama.cpp does not.
        if (name === 'qwen35' && text !== text.normalize('NFC')) continue;
        const ids = tokenizer.encode(text, { addSpecialTokens: false });
        expect(ids.join(' '), JSON.stringify(text)).toBe(expected[i]!.trim());
      }
    },
    60_000,
  );
});
