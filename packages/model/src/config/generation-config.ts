import { z } from 'zod';
import { parseConfig } from './config-error.js';

/** What the model's authors recommend for sampling; absent where they say nothing. */
export interface GenerationDefaults {
  /** `greedy` or `sample`, from `do_sample`. */
  readonly mode?: 'greedy' | 'sample';
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
}

export interface GenerationConfig {
  readonly defaults: GenerationDefaults;
  readonly bosId?: number;
  readonly eosIds: readonly number[];
}

const tokenId = z
  .number()
  .int()
  .min(0)
  .max(2 ** 31);
const schema = z.object({
  do_sample: z.boolean().nullish(),
  temperature: z.number().min(0).max(1e6).nullish(),
  top_k: z
    .number()
    .int()
    .min(0)
    .max(2 ** 31)
    .nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  bos_token_id: tokenId.nullish(),
  eos_token_id: z.union([tokenId, z.array(tokenId).max(256)]).nullish(),
});

/** generation_config.json. Throws `STET_ERR_BAD_CONFIG`. */
export function parseGenerationConfig(value: unknown): GenerationConfig {
  const fields = parseConfig(schema, value, 'generation_config.json');
  return {
    defaults: {
      ...(fields.do_sample != null && { mode: fields.do_sample ? ('sample' as const) : ('greedy' as const) }),
      ...(fields.temperature != null && { temperature: fields.temperature }),
      ...(fields.top_k != null && { topK: fields.top_k }),
      ...(fields.top_p != null && { topP: fields.top_p }),
      ...(fields.min_p != null && { minP: fields.min_p }),
    },
    ...(fields.bos_token_id != null && { bosId: fields.bos_token_id }),
    eosIds: [fields.eos_token_id ?? []].flat(),
  };
}
