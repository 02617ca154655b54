import { StetError } from '@stet/backend';
import { quote } from '../../files/quote.js';
import { type ChatTemplate, createChatTemplate } from '../../text/chat-template.js';
import type { GgufMetadata } from '../metadata-value.js';
import type { SpecialTokens } from './special-tokens.js';
import type { Vocabulary } from './vocabulary.js';

const KEY = 'tokenizer.chat_template';
/** As in tokenizer_config.json. */
const MAX_TEMPLATES = 64;

/**
 * The chat template of a GGUF file, undefined where it has none: `tokenizer.chat_template`, and for each name in
 * `tokenizer.chat_templates` the variant `tokenizer.chat_template.NAME`. Throws `STET_ERR_BAD_CHAT_TEMPLATE`.
 */
export function ggufChatTemplate(
  metadata: GgufMetadata,
  { tokens }: Vocabulary,
  special: SpecialTokens,
): ChatTemplate | undefined {
  const templates = new Map<string, string>();
  for (const name of variantNames(metadata)) templates.set(name, template(metadata, `${KEY}.${name}`));
  if (metadata.get(KEY) !== undefined) templates.set('default', template(metadata, KEY));
  if (templates.size === 0) return undefined;
  const tokenOf = (id: number | undefined): string | undefined => (id === undefined ? undefined : tokens[id]);
  return createChatTemplate(templates, {
    bos_token: tokenOf(special.bosId),
    eos_token: tokenOf(special.eosId),
    pad_token: tokenOf(special.padId),
    unk_token: tokenOf(special.unknownId),
  });
}

function variantNames(metadata: GgufMetadata): readonly string[] {
  const names = metadata.get('tokenizer.chat_templates');
  if (names === undefined) return [];
  if (!Array.isArray(names) || names.length > MAX_TEMPLATES || !names.every((name) => typeof name === 'string'))
    bad(`tokenizer.chat_templates is no list of at most ${MAX_TEMPLATES} names`);
  return names as readonly string[];
}

function template(metadata: GgufMetadata, key: string): string {
  const text = metadata.get(key);
  return typeof text === 'string' ? text : bad(`${quote(key)} is no text`);
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_CHAT_TEMPLATE', `in the GGUF file, ${message}`);
}
