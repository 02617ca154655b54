import { StetError } from '@stet/backend';
import { readJson, readText } from '../files/read-file.js';
import type { FileSource } from '../files/source.js';
import { type ChatTemplate, createChatTemplate, MAX_TEMPLATE_LENGTH } from './chat-template.js';
import { createTokenizer, type Tokenizer } from './tokenizer.js';
import { parseTokenizerConfig, type TokenizerConfig } from './tokenizer-config.js';

/** The text half of a model, and the files it came from. */
export interface LoadedText {
  readonly tokenizer?: Tokenizer;
  readonly chatTemplate?: ChatTemplate;
  readonly files: readonly string[];
}

const TOKENIZER = 'tokenizer.json';
const TOKENIZER_CONFIG = 'tokenizer_config.json';
/** Newer checkpoints keep the template here; it wins over the one in tokenizer_config.json, as in transformers. */
const CHAT_TEMPLATE = 'chat_template.jinja';
const MAX_TOKENIZER_BYTES = 128 * 2 ** 20;
const MAX_TOKENIZER_CONFIG_BYTES = 16 * 2 ** 20;

/**
 * Reads tokenizer.json, tokenizer_config.json and chat_template.jinja, the last two where they are there. A text begins
 * with the bos token when the post-processor of tokenizer.json puts it there, or else when `add_bos_token` of
 * tokenizer_config.json is true. Rejects with `STET_ERR_BAD_TOKENIZER` or `STET_ERR_BAD_CHAT_TEMPLATE`.
 */
export async function loadText(
  source: FileSource,
  names: ReadonlySet<string>,
  model: { readonly vocabSize: number; readonly bosId: number | undefined },
  signal?: AbortSignal,
): Promise<LoadedText> {
  if (!names.has(TOKENIZER)) {
    throw new StetError(
      'STET_ERR_BAD_TOKENIZER',
      `${source.location} has no ${TOKENIZER}; load it with tokenizer: 'none' to use it by token ids alone`,
    );
  }
  const rule = { code: 'STET_ERR_BAD_TOKENIZER', maxBytes: MAX_TOKENIZER_BYTES } as const;
  const json = await readJson(source, TOKENIZER, rule, signal);
  const config: TokenizerConfig = names.has(TOKENIZER_CONFIG)
    ? parseTokenizerConfig(
        await readJson(source, TOKENIZER_CONFIG, { ...rule, maxBytes: MAX_TOKENIZER_CONFIG_BYTES }, signal),
      )
    : { bos: 'leave', chatTemplates: new Map() };
  const templates = new Map(config.chatTemplates);
  if (names.has(CHAT_TEMPLATE)) {
    const templateRule = { code: 'STET_ERR_BAD_CHAT_TEMPLATE', maxBytes: 4 * MAX_TEMPLATE_LENGTH } as const;
    templates.set('default', await readText(source, CHAT_TEMPLATE, templateRule, signal));
  }
  const tokenizer = createTokenizer(json, {
    idLimit: model.vocabSize,
    ...(config.bos === 'add' && { beginning: beginningToken(config, model.bosId) }),
  });
  const specialTokens = {
    bos_token: config.bosToken,
    eos_token: config.eosToken,
    pad_token: config.padToken,
    unk_token: config.unkToken,
  };
  return {
    tokenizer,
    ...(templates.size > 0 && { chatTemplate: createChatTemplate(templates, specialTokens) }),
    files: [TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE].filter((name) => names.has(name)),
  };
}

function beginningToken(config: TokenizerConfig, bosId: number | undefined): string | number {
  const beginning = config.bosToken ?? bosId;
  if (beginning === undefined) {
    throw new StetError('STET_ERR_BAD_TOKENIZER', `${TOKENIZER_CONFIG} has add_bos_token, but there is no bos token`);
  }
  return beginning;
}
