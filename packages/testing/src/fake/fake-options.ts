import type { CanonicalShape } from '@stet/backend';
import type { FakeScript } from './toy-model.js';

export interface FakeBackendOptions {
  /** Seed of the toy model; default 0. */
  readonly seed?: number;
  /**
   * Probability that the arg-max of a fast row differs from the canonical one; default 0. Whether it does is a function
   * of the row's context and the shape of its batch, as with real kernels.
   */
  readonly mismatchRate?: number;
  /** Whether K/V that the fast schedule writes differs from canonical K/V; default true. */
  readonly fastKvDeviates?: boolean;
  readonly script?: FakeScript;
  /** Makes it a `fixed-shape` backend: a canonical batch of any other shape is refused. */
  readonly canonicalShape?: CanonicalShape;
  /** Steps that `log` keeps, the latest ones; default 1000. */
  readonly logSteps?: number;
  /** A defect, for tests of the tests; default `none`. */
  readonly fault?: FakeFault;
}

/** What a wrong backend may do. */
export type FakeFault =
  | 'none'
  /** Canonical logits depend on the number of rows in the batch. */
  | 'batchDependent'
  /** Canonical logits depend on where the row stands in the batch. */
  | 'rowDependent'
  /** Canonical logits depend on the first row of the window that the row was fed in. */
  | 'windowDependent'
  /** Canonical logits depend on whether the step has a fast batch. */
  | 'dependsOnFast'
  /** Canonical logits depend on how many steps were run before. */
  | 'drifts'
  /** The canonical pass leaves candidate K/V where it finds some. */
  | 'keepsCandidateKv'
  /** A sequence of n blocks uses blocks 1..n, whatever its table says. */
  | 'ignoresBlockTables'
  /** A row reads one position too many, whatever is there. */
  | 'readsAhead'
  /** `close` frees nothing. */
  | 'leaks'
  /** What a failed load had allocated stays. */
  | 'leaksOnFailedLoad'
  /** A batch is written before it is checked. */
  | 'writesRefusedBatches'
  /** A second call while one is in flight is run. */
  | 'neverBusy'
  /** A closed backend goes on answering. */
  | 'neverClosed'
  /** `close` does not wait for the call in flight. */
  | 'closesEarly'
  /** Says that fast gives the canonical bits, though it does not. */
  | 'claimsFastIsCanonical'
  /** The arg-max is the highest id among equals. */
  | 'highestTie'
  /** Where several logits are largest, the runner-up is the one below them. */
  | 'runnerUpBelowTies'
  /** The runner-up of a row that wants no logits is its arg-max. */
  | 'runnerUpNeedsLogits'
  /** Fast logits are noise. */
  | 'fastIsNoise'
  /** `forward` keeps the processor for a while. */
  | 'blocksEventLoop'
  /** A load goes on when it was aborted. */
  | 'ignoresAbort'
  /** The last block of the pool is another name of block 1. */
  | 'aliasesLastBlock';

/** One step as a fake saw it. */
export interface FakeStepLog {
  readonly fast?: FakeBatchLog;
  readonly canonical?: FakeBatchLog;
}

export interface FakeBatchLog {
  readonly rowCount: number;
  readonly sequences: readonly {
    /** Of the first row. */
    readonly position: number;
    readonly tokens: readonly number[];
    readonly blocks: readonly number[];
  }[];
  readonly outputRows: readonly number[];
  /** Output rows whose arg-max was made to differ. */
  readonly injectedRows: readonly number[];
}
