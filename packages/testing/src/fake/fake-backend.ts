import {
  assert,
  type Backend,
  type BackendInfo,
  createStepChecker,
  type Step,
  type StepResult,
  StetError,
  tableOf,
} from '@stet/backend';
import { type FakeMemory, fillWithGarbage } from './fake-memory.js';
import type { FakeBackendOptions, FakeStepLog } from './fake-options.js';
import { runBatch, writeBatch } from './run-batch.js';

/** A backend that computes a toy language model by integer hashing, with handles for tests. */
export interface FakeBackend extends Backend {
  /** The latest steps, oldest first. */
  readonly log: readonly FakeStepLog[];
  readonly stepCount: number;
  /** Fast output rows whose arg-max was made to differ. */
  readonly injectedMismatches: number;
  /** True while a call of `forward` has not settled. */
  readonly inFlight: boolean;
  /** Fills blocks with garbage, as freed blocks may be. */
  poison(blocks: Iterable<number>): void;
  /** The next `forward` rejects with this error, having left garbage in the blocks it was to write. */
  failNext(error?: Error): void;
  /** From now on `forward` does its work but settles only after `release`. */
  hold(): void;
  release(): void;
}

interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

export class ToyBackend implements FakeBackend {
  readonly info: BackendInfo;
  readonly log: FakeStepLog[] = [];
  stepCount = 0;
  injectedMismatches = 0;
  readonly #memory: FakeMemory;
  readonly #options: FakeBackendOptions;
  readonly #onClosed: () => void;
  readonly #checkStep: (step: Step) => void;
  readonly #failures: Error[] = [];
  #poisonings = 0;
  #isClosed = false;
  #inFlight: Promise<StepResult> | undefined;
  #gate: Gate | undefined;
  #lastResult: StepResult = {};

  constructor(memory: FakeMemory, info: BackendInfo, options: FakeBackendOptions, onClosed: () => void) {
    this.#memory = memory;
    this.info = info;
    this.#options = options;
    this.#onClosed = onClosed;
    this.#checkStep = createStepChecker(info);
  }

  get inFlight(): boolean {
    return this.#inFlight !== undefined;
  }

  async forward(step: Step): Promise<StepResult> {
    const { fault } = this.#options;
    if (this.#isClosed && fault !== 'neverClosed') {
      throw new StetError('STET_ERR_BACKEND_CLOSED', 'the fake backend is closed');
    }
    if (this.#inFlight && fault !== 'neverBusy') {
      throw new StetError('STET_ERR_BACKEND_BUSY', 'the fake backend is running a step');
    }
    if (fault === 'writesRefusedBatches') this.#write(step);
    this.#checkStep(step);
    scribble(this.#lastResult);
    const call = this.#run(step);
    this.#inFlight = call;
    try {
      return await call;
    } finally {
      if (this.#inFlight === call) this.#inFlight = undefined;
    }
  }

  async close(): Promise<void> {
    const wasClosed = this.#isClosed;
    this.#isClosed = true;
    if (this.#options.fault !== 'closesEarly') await this.#inFlight?.catch(() => {});
    if (!wasClosed) this.#onClosed();
  }

  poison(blocks: Iterable<number>): void {
    for (const block of blocks) fillWithGarbage(this.#memory, block, ++this.#poisonings);
  }

  failNext(error: Error = new StetError('STET_ERR_BACKEND_FAILED', 'the fake device failed, as it was told to')): void {
    this.#failures.push(error);
  }

  hold(): void {
    if (this.#gate) return;
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#gate = { opened, open };
  }

  release(): void {
    this.#gate?.open();
    this.#gate = undefined;
  }

  async #run(step: Step): Promise<StepResult> {
    const failure = this.#failures.shift();
    const result = failure ? undefined : this.#compute(step);
    if (failure) this.poison(writtenBlocks(step, this.#memory.blockSize));
    const gate = this.#gate;
    if (gate) {
      const before = columnsOf(step);
      await gate.opened;
      assert(columnsOf(step) === before, 'the columns of a batch do not change while its step is in flight');
    } else {
      // A forward never settles before its caller has got the promise.
      await Promise.resolve();
    }
    if (!result) throw failure;
    this.#lastResult = result;
    return result;
  }

  #compute(step: Step): StepResult {
    if (this.#options.fault === 'blocksEventLoop') keepProcessor(300);
    const shape = { stepCount: this.stepCount, hasFast: step.fast !== undefined };
    const { vocabSize } = this.info;
    const fast = step.fast && runBatch(this.#memory, step.fast, 'fast', vocabSize, this.#options, shape);
    const canonical =
      step.canonical && runBatch(this.#memory, step.canonical, 'canonical', vocabSize, this.#options, shape);
    this.stepCount++;
    this.injectedMismatches += fast?.log.injectedRows.length ?? 0;
    this.log.push({ ...(fast && { fast: fast.log }), ...(canonical && { canonical: canonical.log }) });
    if (this.log.length > (this.#options.logSteps ?? 1000)) this.log.shift();
    return { ...(fast && { fast: fast.result }), ...(canonical && { canonical: canonical.result }) };
  }

  #write(step: Step): void {
    if (step.fast) writeBatch(this.#memory, step.fast, 'fast', this.#options);
    if (step.canonical) writeBatch(this.#memory, step.canonical, 'canonical', this.#options);
  }
}

function keepProcessor(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end) {}
}

/** Results die at the next call: overwriting them shows a caller that kept one. */
function scribble(result: StepResult): void {
  for (const batch of [result.fast, result.canonical]) {
    batch?.argmax.fill(-1);
    batch?.argmaxLogit.fill(Number.NaN);
    batch?.runnerUpLogit.fill(Number.NaN);
    batch?.logits.fill(Number.NaN);
  }
}

function columnsOf(step: Step): string {
  const batches = [step.fast, step.canonical];
  return JSON.stringify(batches.map((batch) => batch && Object.values(batch).map((column) => [...column])));
}

function writtenBlocks(step: Step, blockSize: number): number[] {
  const written: number[] = [];
  for (const batch of [step.fast, step.canonical]) {
    if (!batch) continue;
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      const first = Math.floor(batch.positions[batch.rowStarts[s]!]! / blockSize);
      written.push(...tableOf(batch, s, blockSize).subarray(first));
    }
  }
  return written;
}
