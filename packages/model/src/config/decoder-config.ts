import type { RopeConfig } from './rope-config.js';

/** The families whose plans `decoderPlan` builds. */
export const families = ['llama', 'mistral', 'qwen2', 'qwen3', 'smollm3', 'phi3', 'olmo2'] as const;

export type Family = (typeof families)[number];

/**
 * A decoder of one of the supported families, defaults filled in: what config.json of either style and the metadata of
 * a GGUF file are turned into, and all that a plan is built from.
 */
export interface DecoderConfig {
  readonly family: Family;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Width of the feed-forward block. */
  readonly intermediateSize: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  /** Positions that the model was made for. */
  readonly contextLength: number;
  readonly normEpsilon: number;
  readonly rope: RopeConfig;
  readonly layers: readonly LayerConfig[];
  readonly biases: BiasConfig;
  /** `before`: norms of what enters attention and feed-forward; `after`: of what they add to the hidden state (OLMo 2). */
  readonly blockNorms: 'before' | 'after';
  /** Norms of queries and keys before the rotation: of each head (Qwen 3), or of the whole projection (OLMo 2). */
  readonly queryKeyNorms: 'none' | 'heads' | 'whole';
  /** `tied`: the embedding is the head too. */
  readonly head: 'tied' | 'own';
  readonly bosId?: number;
  /** Any of them ends a text. */
  readonly eosIds: readonly number[];
}

export interface LayerConfig {
  /** `none`: queries and keys are not rotated (some layers of SmolLM 3). */
  readonly positions: 'rope' | 'none';
  /** Sliding window, in positions; absent where attention sees the whole context. */
  readonly windowSize?: number;
}

/** Which linears have a bias. */
export interface BiasConfig {
  readonly queryKeyValue: boolean;
  readonly attentionOutput: boolean;
  readonly feedForward: boolean;
}
