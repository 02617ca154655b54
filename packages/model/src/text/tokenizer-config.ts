import { z } from 'zod';
import { parseConfig } from '../config/config-error.js';

/** What tokenizer_config.json says, as far as it matters here. */
export interface TokenizerConfig {
  readonly bosToken?: string;
  readonly eosToken?: string;
  readonly padToken?: string;
  readonly unkToken?: string;
  /** `add`: put the bos token in front of a text, where the post-processor of tokenizer.json does not. */
  readonly bos: 'add' | 'leave';
  /** Chat templates by name; the ordinary one is `default`. */
  readonly chatTemplates: ReadonlyMap<string, string>;
}

const token = z.union([z.string(), z.object({ content: z.string() })]).nullish();
const schema = z.object({
  bos_token: token,
  eos_token: token,
  pad_token: token,
  unk_token: token,
  add_bos_token: z.boolean().nullish(),
  chat_template: z.union([z.string(), z.array(z.object({ name: z.string(), template: z.string() })).max(64)]).nullish(),
});

/** Throws `STET_ERR_BAD_TOKENIZER`. */
export function parseTokenizerConfig(value: unknown): TokenizerConfig {
  const { bos_token, eos_token, pad_token, unk_token, add_bos_token, chat_template } = parseConfig(
    schema,
    value,
    'tokenizer_config.json',
    'STET_ERR_BAD_TOKENIZER',
  );
  const text = (name: string, given: z.infer<typeof token>): Record<string, string> =>
    given == null ? {} : { [name]: typeof given === 'string' ? given : given.content };
  const templates = typeof chat_template === 'string' ? [{ name: 'default', template: chat_template }] : chat_template;
  return {
    ...text('bosToken', bos_token),
    ...text('eosToken', eos_token),
    ...text('padToken', pad_token),
    ...text('unkToken', unk_token),
    bos: add_bos_token ? 'add' : 'leave',
    chatTemplates: new Map((templates ?? []).map(({ name, template }) => [name, template])),
  };
}
