import { assert, assertNever, type RopeSpec } from '@stet/backend';
import { exp, ln } from '@stet/backend/numerics';
import type { RopeConfig } from '../config/rope-config.js';

/**
 * Angles per position of a head's pairs, as transformers defines each type, in f64 from basic operations alone: every
 * JavaScript engine gets the same bits.
 */
export function ropeSpec(config: RopeConfig, headSize: number): RopeSpec {
  const pairCount = headSize / 2;
  const logTheta = ln(config.theta);
  const base = Array.from({ length: pairCount }, (_, pair) => exp(-((2 * pair) / headSize) * logTheta));
  switch (config.type) {
    case 'default':
      return { inverseFrequencies: base, attentionFactor: 1 };
    case 'linear':
      return { inverseFrequencies: base.map((frequency) => frequency / config.factor), attentionFactor: 1 };
    case 'factors':
      assert(config.factors.length === pairCount, `${config.factors.length} factors for ${pairCount} pairs`);
      return {
        inverseFrequencies: base.map((frequency, pair) => frequency / config.factors[pair]!),
        attentionFactor: 1,
      };
    case 'llama3':
      return { inverseFrequencies: base.map((frequency) => llama3Frequency(config, frequency)), attentionFactor: 1 };
    case 'yarn':
      return {
        inverseFrequencies: yarnFrequencies(config, base, headSize),
        attentionFactor: yarnAttentionFactor(config),
      };
    default:
      return assertNever(config);
  }
}

/** High frequencies stay, low ones are divided by the factor, those between are blended. */
function llama3Frequency(config: RopeConfig & { type: 'llama3' }, frequency: number): number {
  const wavelength = (2 * Math.PI) / frequency;
  if (wavelength < config.originalContextLength / config.highFrequencyFactor) return frequency;
  if (wavelength > config.originalContextLength / config.lowFrequencyFactor) return frequency / config.factor;
  const smooth =
    (config.originalContextLength / wavelength - config.lowFrequencyFactor) /
    (config.highFrequencyFactor - config.lowFrequencyFactor);
  return ((1 - smooth) * frequency) / config.factor + smooth * frequency;
}

/** Pairs that turn often keep their frequency, pairs that turn seldom have it divided, a ramp lies between. */
function yarnFrequencies(config: RopeConfig & { type: 'yarn' }, base: readonly number[], headSize: number): number[] {
  const correctedDimension = (rotations: number): number =>
    (headSize * ln(config.originalContextLength / (rotations * 2 * Math.PI))) / (2 * ln(config.theta));
  let low = correctedDimension(config.betaFast);
  let high = correctedDimension(config.betaSlow);
  if (config.rounding === 'whole') {
    low = Math.floor(low);
    high = Math.ceil(high);
  }
  low = Math.max(low, 0);
  high = Math.min(high, headSize - 1);
  if (low === high) high += 0.001;
  return base.map((frequency, pair) => {
    const ramp = Math.min(Math.max((pair - low) / (high - low), 0), 1);
    return (frequency / config.factor) * ramp + frequency * (1 - ramp);
  });
}

function yarnAttentionFactor(config: RopeConfig & { type: 'yarn' }): number {
  const { attentionFactor, factor, mscale, mscaleAllDim } = config;
  if (attentionFactor !== undefined) return attentionFactor;
  if (mscale && mscaleAllDim) return yarnScale(factor, mscale) / yarnScale(factor, mscaleAllDim);
  return yarnScale(factor, 1);
}

function yarnScale(factor: number, mscale: number): number {
  return factor <= 1 ? 1 : 0.1 * mscale * ln(factor) + 1;
}
