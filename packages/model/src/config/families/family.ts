import type { ConfigFields } from '../config-fields.js';
import type { BiasConfig, DecoderConfig, Family, LayerConfig } from '../decoder-config.js';
import type { RopeType } from '../rope-config.js';

/** What is special about a family: what its config.json means where that differs, and what it leaves unsaid. */
export interface FamilyRules {
  readonly family: Family;
  /** `model_type` of its config.json. */
  readonly modelType: string;
  /** Defaults of transformers for fields that are absent. */
  readonly defaults: {
    readonly normEpsilon: number;
    readonly ropeTheta: number;
    readonly head: DecoderConfig['head'];
    /** As many as heads, where absent. */
    readonly kvHeadCount?: number;
    /** hidden size / heads, where absent. */
    readonly headSize?: number;
  };
  readonly ropeTypes: readonly RopeType[];
  readonly blockNorms: DecoderConfig['blockNorms'];
  readonly queryKeyNorms: DecoderConfig['queryKeyNorms'];
  readonly biases: (fields: ConfigFields) => BiasConfig;
  readonly layers: (fields: ConfigFields) => readonly LayerConfig[];
}

/** Layers that are all rotated, each with its window. */
export function rotatedLayers(windows: readonly (number | undefined)[]): LayerConfig[] {
  return windows.map((windowSize) => ({ positions: 'rope', ...(windowSize !== undefined && { windowSize }) }));
}

export const noBiases: BiasConfig = { queryKeyValue: false, attentionOutput: false, feedForward: false };

/** Biases where `attention_bias` and, in families that have it, `mlp_bias` say so. */
export function biasesOf(attention: boolean | null | undefined, feedForward: boolean | null | undefined): BiasConfig {
  return { queryKeyValue: attention ?? false, attentionOutput: attention ?? false, feedForward: feedForward ?? false };
}
