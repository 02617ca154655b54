import type { RopeSpec, WeightFormat } from './plan.js';
import type { WeightData } from './weights.js';

/**
 * One operation on plain arrays, for golden vectors: what a kernel computes, apart from any model. A backend exports
 * an `OpRunner` next to its factory, runs the vectors at start and refuses its canonical schedule if one bit differs.
 */
export interface OpRunner {
  /** Runs the canonical kernel of the case and returns its outputs, by name. Throws `STET_ERR_UNSUPPORTED` for a kind it has not. */
  run(input: OpCase): Promise<OpOutputs>;
  close(): Promise<void>;
}

export type OpCase =
  /** → `output` (rowCount × columns) */
  | {
      readonly kind: 'embed';
      readonly rows: number;
      readonly columns: number;
      readonly table: WeightData;
      readonly tokens: Int32Array;
    }
  /** weight (width / groupCount) → `output` (rowCount × width) */
  | {
      readonly kind: 'rmsNorm';
      readonly width: number;
      readonly epsilon: number;
      /** 1 by default. */
      readonly groupCount?: number;
      readonly weight: Float32Array;
      readonly input: Float32Array;
    }
  /** input (rowCount × columns) → `output` (rowCount × rows) */
  | {
      readonly kind: 'linear';
      readonly format: WeightFormat;
      readonly rows: number;
      readonly columns: number;
      readonly weight: WeightData;
      readonly bias?: Float32Array;
      readonly input: Float32Array;
    }
  /** input (rowCount × headCount·headSize) → `output`, rotated */
  | {
      readonly kind: 'rope';
      readonly headCount: number;
      readonly headSize: number;
      readonly rope: RopeSpec;
      readonly positions: Int32Array;
      readonly input: Float32Array;
    }
  /**
   * One sequence: key and value (positionCount × kvHeadCount·headSize) are written at positions 0.., then queries
   * (rowCount × headCount·headSize) at `queryPositions` attend → `output` (rowCount × headCount·headSize).
   */
  | {
      readonly kind: 'attention';
      readonly headCount: number;
      readonly kvHeadCount: number;
      readonly headSize: number;
      readonly blockSize: number;
      /** Sliding window, in positions; the whole context by default. */
      readonly windowSize?: number;
      readonly key: Float32Array;
      readonly value: Float32Array;
      readonly query: Float32Array;
      readonly queryPositions: Int32Array;
    }
  /** → `output` (same length) */
  | { readonly kind: 'swiglu'; readonly gate: Float32Array; readonly up: Float32Array }
  /** → `output` (same length) */
  | { readonly kind: 'add'; readonly left: Float32Array; readonly right: Float32Array };

export interface OpOutputs {
  readonly output: Float32Array;
}
