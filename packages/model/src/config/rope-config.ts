import { assertNever } from '@stet/backend';
import { z } from 'zod';
import { quote } from '../files/quote.js';
import { badConfig } from './config-error.js';

/** A rotary embedding as a config asks for it, old or new style, defaults filled in. */
export type RopeConfig =
  | { readonly type: 'default'; readonly theta: number }
  | { readonly type: 'linear'; readonly theta: number; readonly factor: number }
  /** Frequency i is divided by `factors[i]`, headSize / 2 of them (a GGUF file's `rope_freqs`). */
  | { readonly type: 'factors'; readonly theta: number; readonly factors: readonly number[] }
  | {
      readonly type: 'llama3';
      readonly theta: number;
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContextLength: number;
    }
  | {
      readonly type: 'yarn';
      readonly theta: number;
      readonly factor: number;
      readonly originalContextLength: number;
      readonly attentionFactor?: number;
      readonly mscale?: number;
      readonly mscaleAllDim?: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      /** Whether the corrected dimensions are rounded outwards to whole ones. */
      readonly rounding: 'whole' | 'none';
    };

/** Types that config.json may name. */
export const ropeTypes = ['default', 'linear', 'llama3', 'yarn'] as const;

export type RopeType = (typeof ropeTypes)[number];

const positive = z.number().positive().max(1e12);
const scaling = z.looseObject({
  type: z.string().nullish(),
  rope_type: z.string().nullish(),
  rope_theta: positive.nullish(),
  partial_rotary_factor: z.number().nullish(),
  factor: z.number().min(1e-6).max(1e6).nullish(),
  original_max_position_embeddings: z
    .number()
    .int()
    .positive()
    .max(2 ** 30)
    .nullish(),
  low_freq_factor: positive.nullish(),
  high_freq_factor: positive.nullish(),
  attention_factor: z.number().min(1e-6).max(1e6).nullish(),
  mscale: z.number().min(0).max(1e6).nullish(),
  mscale_all_dim: z.number().min(0).max(1e6).nullish(),
  beta_fast: positive.nullish(),
  beta_slow: positive.nullish(),
  truncate: z.boolean().nullish(),
});

/** The fields of config.json that say how positions are rotated. */
export const ropeFields = {
  rope_theta: positive.nullish(),
  /** Before transformers 5. */
  rope_scaling: scaling.nullish(),
  /** Since transformers 5. */
  rope_parameters: scaling.nullish(),
  partial_rotary_factor: z.number().nullish(),
  original_max_position_embeddings: z
    .number()
    .int()
    .positive()
    .max(2 ** 30)
    .nullish(),
};

export interface RopeFields {
  readonly rope_theta?: number | null | undefined;
  readonly rope_scaling?: z.infer<typeof scaling> | null | undefined;
  readonly rope_parameters?: z.infer<typeof scaling> | null | undefined;
  readonly partial_rotary_factor?: number | null | undefined;
  readonly original_max_position_embeddings?: number | null | undefined;
  readonly max_position_embeddings: number;
}

/**
 * One form for both styles. `types` are those that the family has. Throws `STET_ERR_BAD_CONFIG` that names a type which
 * is not supported.
 */
export function ropeConfig(fields: RopeFields, defaultTheta: number, types: readonly RopeType[]): RopeConfig {
  // Where both are given, transformers takes the old one.
  const given = fields.rope_scaling ?? fields.rope_parameters ?? {};
  refuseForeignParameters(given);
  const theta = given.rope_theta ?? fields.rope_theta ?? defaultTheta;
  if (theta <= 1) badConfig(`rope_theta is ${theta}, it must be above 1`);
  const partial = given.partial_rotary_factor ?? fields.partial_rotary_factor ?? 1;
  if (partial !== 1) badConfig(`partial_rotary_factor ${partial} is not supported, only 1`);
  const type = supportedType(given.rope_type ?? given.type ?? 'default', types);
  const originalContextLength =
    given.original_max_position_embeddings ?? fields.original_max_position_embeddings ?? fields.max_position_embeddings;
  switch (type) {
    case 'default':
      return { type, theta };
    case 'linear':
      return { type, theta, factor: given.factor ?? missing(type, 'factor') };
    case 'llama3': {
      const lowFrequencyFactor = given.low_freq_factor ?? missing(type, 'low_freq_factor');
      const highFrequencyFactor = given.high_freq_factor ?? missing(type, 'high_freq_factor');
      if (highFrequencyFactor <= lowFrequencyFactor) badConfig('high_freq_factor must be above low_freq_factor');
      const factor = given.factor ?? missing(type, 'factor');
      return { type, theta, factor, lowFrequencyFactor, highFrequencyFactor, originalContextLength };
    }
    case 'yarn':
      return {
        type,
        theta,
        factor: given.factor ?? fields.max_position_embeddings / originalContextLength,
        originalContextLength,
        ...(given.attention_factor != null && { attentionFactor: given.attention_factor }),
        ...(given.mscale != null && { mscale: given.mscale }),
        ...(given.mscale_all_dim != null && { mscaleAllDim: given.mscale_all_dim }),
        betaFast: given.beta_fast ?? 32,
        betaSlow: given.beta_slow ?? 1,
        rounding: (given.truncate ?? true) ? 'whole' : 'none',
      };
    default:
      return assertNever(type);
  }
}

function supportedType(name: string, types: readonly RopeType[]): RopeType {
  const type = types.find((known) => known === name);
  return type ?? badConfig(`rope type ${quote(name)} is not supported; supported are ${types.join(', ')}`);
}

/** Parameters that change the rotation under a type that does not know them. */
function refuseForeignParameters(given: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (value === null) continue;
    if (name === 'mrope_section' || name === 'llama_4_scaling_beta') badConfig(`the rope's ${name} is not supported`);
    if (typeof value === 'object' && !Array.isArray(value))
      badConfig(`a rope of its own for ${quote(name)} is not supported, only one for all layers`);
  }
}

function missing(type: string, field: string): never {
  badConfig(`rope type ${type} needs ${field}`);
}
