import type { CanonicalShape, Step, StepResult } from './batch.js';
import type { Plan } from './plan.js';
import type { TokenSampler } from './sampling.js';
import type { WeightSource } from './weights.js';

/** The version of docs/NUMERICS.md that a canonical schedule implements. */
export const NUMERICS_ID = 'stet-1';

export interface BackendInfo {
  /** `cpu`, `reference`, `webgpu`, … */
  readonly name: string;
  /** The device in words, e.g. `AVX-512, bf16 dot, 2 threads`. */
  readonly device: string;
  /** Canonical numerics, or null where the backend has no canonical schedule. */
  readonly numerics: typeof NUMERICS_ID | null;
  /**
   * `portable`: the bits of docs/NUMERICS.md; `fixed-shape`: opaque kernels that repeat themselves in one shape, on one
   * device and build; `none`: deterministic requests are refused.
   */
  readonly canonical: 'portable' | 'fixed-shape' | 'none';
  /** Of `fixed-shape` backends. */
  readonly canonicalShape?: CanonicalShape;
  /** `canonical`: the fast schedule gives the canonical bits, so nothing needs verifying; `free`: it may not. */
  readonly fast: 'canonical' | 'free';
  readonly vocabSize: number;
  readonly contextLength: number;
  /** Positions in a K/V block. */
  readonly blockSize: number;
  /** Blocks in the pool, block 0 included, which is never issued. */
  readonly blockCount: number;
  /** Most rows of one batch. */
  readonly maxRows: number;
  readonly memory: { readonly weightBytes: number; readonly kvBytes: number; readonly scratchBytes: number };
}

/** A model on a device. */
export interface Backend {
  readonly info: BackendInfo;
  /** Draws tokens from the logits of a step, quicker than the scheduler would; the tokens are the same. */
  readonly sampler?: TokenSampler;
  /**
   * Runs one step. One call may be in flight; a second rejects with `STET_ERR_BACKEND_BUSY`. Rejects with
   * `STET_ERR_BAD_BATCH` before anything is written, with `STET_ERR_BACKEND_CLOSED` after `close`, with
   * `STET_ERR_DEVICE_LOST` once the device is gone and with it every K/V row, for good. Never substitutes a kernel, a shape
   * or a schedule. The arrays of the result live until the next call.
   */
  forward(step: Step): Promise<StepResult>;
  /** Waits for the call in flight and frees everything. May be called twice. */
  close(): Promise<void>;
}

export interface BackendLoad {
  readonly plan: Plan;
  readonly weights: WeightSource;
  /**
   * What the weights are, in hex digits: equal for sources that give the same weights for the specs of the plan, and for
   * those alone. A backend may keep its form of them by this key, and then not read the source. Without it nothing is kept.
   */
  readonly weightsKey?: string;
  /** Positions in a block, a multiple of 16. */
  readonly blockSize: number;
  /** Blocks in the pool, block 0 included. */
  readonly blockCount: number;
  /** Most rows of one batch. */
  readonly maxRows: number;
  /** Called as weights are loaded: done and total, in weights. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/** Loads a model onto a device. Rejects with a `StetError`; what was allocated until then is freed. */
export type BackendFactory = (load: BackendLoad) => Promise<Backend>;
