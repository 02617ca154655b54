import type { DecoderConfig, Family, LayerConfig } from '../../config/decoder-config.js';

/** What is special about the GGUF files of one `general.architecture`; sizes are in their metadata. */
export interface GgufArchitecture {
  readonly family: Family;
  /**
   * Order of the rows of a head of queries or keys: `halves` as Hugging Face has them, rows i and i + headSize / 2
   * rotated together; `pairs` where the converter reorders them, rows 2i and 2i + 1.
   */
  readonly headRows: 'halves' | 'pairs';
  readonly blockNorms: DecoderConfig['blockNorms'];
  readonly queryKeyNorms: DecoderConfig['queryKeyNorms'];
  /** `optional`: there where the file has the tensors. */
  readonly queryKeyValueBias: 'always' | 'optional';
  /** `fused`: one tensor `ffn_up` has the rows of the gate, then those of up. */
  readonly gateAndUp: 'separate' | 'fused';
  /** Whether a window, where the metadata have one, is that of all layers, or cannot be told apart. */
  readonly slidingWindow: 'all layers' | 'unsupported';
  /** Whether a tensor `rope_freqs` divides the frequencies. */
  readonly ropeFactors: 'tensor' | 'none';
  positions(layer: number): LayerConfig['positions'];
}

/** What most families have. */
export const plainDecoder = {
  headRows: 'halves',
  blockNorms: 'before',
  queryKeyNorms: 'none',
  queryKeyValueBias: 'optional',
  gateAndUp: 'separate',
  slidingWindow: 'unsupported',
  ropeFactors: 'none',
  positions: () => 'rope',
} as const satisfies Omit<GgufArchitecture, 'family'>;
