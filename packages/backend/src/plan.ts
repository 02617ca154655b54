/**
 * A model as data: buffers and a short list of typed operations. A plan builder of `@stet/model` makes it from a
 * checkpoint's config; a backend compiles it once when it loads and then runs all of it in one `forward` call.
 *
 * Every buffer is f32 and has one row per token of the batch: shape (rowCount, width).
 */
export interface Plan {
  /** The architecture the plan was built from, e.g. `llama`. */
  readonly architecture: string;
  readonly vocabSize: number;
  /** Largest number of positions; every position is below it. */
  readonly contextLength: number;
  /** Number of layers that keep K/V; `kvWrite` and `attention` name one by index. */
  readonly layerCount: number;
  readonly kvHeadCount: number;
  /** Elements of one head, before the padding to a multiple of 32 that K/V storage has. */
  readonly headSize: number;
  readonly buffers: readonly BufferSpec[];
  readonly weights: readonly WeightSpec[];
  readonly ropes: readonly RopeSpec[];
  /** In order. The last one is `logits`, and there is only one of those. */
  readonly ops: readonly Op[];
}

/** Index into `Plan.buffers`, `Plan.weights` and `Plan.ropes`. */
export type BufferId = number;
export type WeightId = number;
export type RopeId = number;

export interface BufferSpec {
  readonly name: string;
  readonly width: number;
}

/** How a matrix is stored. A plan may mix them; they are part of the fingerprint. */
export type WeightFormat = 'bf16' | 'q8' | 'q4';

/** Every format, those of more bits first. */
export const weightFormats: readonly WeightFormat[] = ['bf16', 'q8', 'q4'];

export type WeightSpec =
  /** `rows` outputs of `columns` inputs each, row-major, as checkpoints have them: y = W·x. */
  | {
      readonly kind: 'matrix';
      readonly name: string;
      readonly rows: number;
      readonly columns: number;
      readonly format: WeightFormat;
    }
  /** Norm weights and biases, f32. */
  | { readonly kind: 'vector'; readonly name: string; readonly size: number; readonly role: 'norm' | 'bias' };

/** A rotary embedding. The tables are made from it by `ropeTables` of `@stet/backend/numerics`, once, in f64. */
export interface RopeSpec {
  /** Angle per position of each pair, f64, length headSize / 2; scaling types are already applied. */
  readonly inverseFrequencies: readonly number[];
  /** Factor on cosine and sine (yarn), 1 otherwise. */
  readonly attentionFactor: number;
}

export type Op =
  /** output row = row `token` of the matrix `table`. */
  | { readonly kind: 'embed'; readonly table: WeightId; readonly output: BufferId }
  /**
   * Normalizes each row; with `groupCount`, each of so many equal parts of the row by itself (norms of query and key
   * heads). The parts share the weight, whose size is width / groupCount. Output may be input.
   */
  | {
      readonly kind: 'rmsNorm';
      readonly input: BufferId;
      readonly weight: WeightId;
      readonly epsilon: number;
      /** 1 by default. */
      readonly groupCount?: number;
      readonly output: BufferId;
    }
  | {
      readonly kind: 'linear';
      readonly input: BufferId;
      readonly weight: WeightId;
      readonly bias?: WeightId;
      readonly output: BufferId;
    }
  /** Rotates each of the buffer's heads in place by the row's position (half-split pairs). */
  | { readonly kind: 'rope'; readonly buffer: BufferId; readonly headCount: number; readonly rope: RopeId }
  /** Quantizes k and v and stores them at (layer, block, offset) of the row's position. All rows are written before any reads. */
  | { readonly kind: 'kvWrite'; readonly layer: number; readonly key: BufferId; readonly value: BufferId }
  /**
   * Causal attention of each query head over the row's own block table: over positions 0..position, or, with
   * `windowSize`, over the last `windowSize` of them, the row's own among them.
   */
  | {
      readonly kind: 'attention';
      readonly layer: number;
      readonly query: BufferId;
      readonly headCount: number;
      /** Sliding window, in positions; the whole context by default. */
      readonly windowSize?: number;
      readonly output: BufferId;
    }
  | { readonly kind: 'swiglu'; readonly gate: BufferId; readonly up: BufferId; readonly output: BufferId }
  /** output = left + right; output may be left. */
  | { readonly kind: 'add'; readonly left: BufferId; readonly right: BufferId; readonly output: BufferId }
  /** For the wanted rows alone: rmsNorm, then linear with the head. */
  | {
      readonly kind: 'logits';
      readonly input: BufferId;
      readonly norm: WeightId;
      readonly epsilon: number;
      readonly weight: WeightId;
      readonly bias?: WeightId;
    };

export type OpKind = Op['kind'];

/** Elements of one stored K/V head: `headSize` padded with zeros to a multiple of 32. */
export function paddedHeadSize(headSize: number): number {
  return Math.ceil(headSize / 32) * 32;
}

/** Formats of the matrices of a plan, each once. */
export function formatsOf(plan: Plan): WeightFormat[] {
  return [...new Set(plan.weights.flatMap((spec) => (spec.kind === 'matrix' ? [spec.format] : [])))];
}
