import type { RopeConfig } from '../../config/rope-config.js';
import { quote } from '../../files/quote.js';
import type { ModelKeys } from './model-keys.js';

const DEFAULT_THETA = 10000;
const SUPPORTED_TYPES = ['none', 'linear', 'yarn'];
const MAX_FACTOR = 1e6;
const MAX_CONTEXT = 2 ** 30;

/**
 * The rotary embedding of the keys `rope.…`. `factors` are the values of the tensor `rope_freqs`, where the file has it:
 * frequency i is divided by factor i, before a linear scaling. Throws `STET_ERR_BAD_CONFIG`.
 */
export function ropeOfKeys(keys: ModelKeys, contextLength: number, factors: readonly number[] | undefined): RopeConfig {
  const theta = keys.decimal('rope.freq_base', 0, 1e12) ?? DEFAULT_THETA;
  if (theta <= 1) keys.bad('rope.freq_base', `is ${theta}, it must be above 1`);
  const givenFactor = keys.decimal('rope.scaling.factor', 0, MAX_FACTOR);
  // The name of the factor in files of 2023. Zero means that there is none.
  const oldFactor = keys.decimal('rope.scale_linear', 0, MAX_FACTOR);
  const factor = (givenFactor ?? oldFactor) || 1;
  const type = keys.text('rope.scaling.type') ?? 'linear';
  // Whether the authors went on training after they scaled.
  keys.ignore('rope.scaling.finetuned');
  keys.neutral('rope.scaling.attn_factor', 1);
  keys.neutral('rope.scaling.alpha', 0);
  switch (type) {
    case 'none':
      ignoreScaling(keys);
      return factorsRope(theta, 1, factors);
    case 'linear':
      ignoreScaling(keys);
      return factorsRope(theta, factor, factors);
    case 'yarn':
      if (factors) keys.bad('rope.scaling.type', 'is "yarn", which does not go with a tensor rope_freqs');
      return yarnRope(keys, theta, factor, contextLength);
    default:
      return keys.bad(
        'rope.scaling.type',
        `is ${quote(type)}, which is not supported; supported are ${SUPPORTED_TYPES.join(', ')}`,
      );
  }
}

function factorsRope(theta: number, factor: number, factors: readonly number[] | undefined): RopeConfig {
  if (factors) return { type: 'factors', theta, factors: factors.map((value) => value * factor) };
  return factor === 1 ? { type: 'default', theta } : { type: 'linear', theta, factor };
}

/** What is said of yarn means nothing where the type is another; Phi-3's converter writes the length all the same. */
function ignoreScaling(keys: ModelKeys): void {
  for (const name of ['original_context_length', ...YARN_KEYS]) keys.ignore(`rope.scaling.${name}`);
}

const YARN_KEYS = ['yarn_log_multiplier', 'yarn_ext_factor', 'yarn_attn_factor', 'yarn_beta_fast', 'yarn_beta_slow'];

function yarnRope(keys: ModelKeys, theta: number, factor: number, contextLength: number): RopeConfig {
  keys.neutral('rope.scaling.yarn_log_multiplier', 0);
  // How much of the ramp is used; -1 means that it is not given.
  keys.neutral('rope.scaling.yarn_ext_factor', 1, -1);
  const attentionFactor = keys.decimal('rope.scaling.yarn_attn_factor', 1e-6, MAX_FACTOR);
  return {
    type: 'yarn',
    theta,
    factor,
    originalContextLength: keys.count('rope.scaling.original_context_length', MAX_CONTEXT) ?? contextLength,
    ...(attentionFactor !== undefined && { attentionFactor }),
    betaFast: keys.decimal('rope.scaling.yarn_beta_fast', 1e-6, 1e12) ?? 32,
    betaSlow: keys.decimal('rope.scaling.yarn_beta_slow', 1e-6, 1e12) ?? 1,
    rounding: 'whole',
  };
}
