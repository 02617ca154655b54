import type { Batch, BatchResult, Step, StepResult } from '../batch.js';
import { createStepChecker } from '../check-step.js';
import { assert, isStetError, StetError } from '../errors.js';
import type { Backend, BackendInfo } from '../port.js';
import type { Draw, Drawn, TokenSampler } from '../sampling.js';
import { type FastCall, FeedPlanner } from './feed-planner.js';
import type { KvLedger } from './kv-ledger.js';

export interface ComposedParts {
  readonly info: BackendInfo;
  readonly fast: Backend;
  readonly canonical: Backend;
  /** Of two empty pools. */
  readonly ledger: KvLedger;
}

/** Two backends with the same model and sizes as one; it owns both. */
export class ComposedBackend implements Backend {
  readonly info: BackendInfo;
  readonly sampler?: TokenSampler;
  readonly #fast: Backend;
  readonly #canonical: Backend;
  readonly #ledger: KvLedger;
  readonly #planner: FeedPlanner;
  readonly #check: (step: Step) => void;
  #inFlight: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor({ info, fast, canonical, ledger }: ComposedParts) {
    this.info = info;
    this.#fast = fast;
    this.#canonical = canonical;
    this.#ledger = ledger;
    this.#planner = new FeedPlanner(ledger, info);
    this.#check = createStepChecker(info);
    const sampler = canonical.sampler ?? fast.sampler;
    if (sampler) this.sampler = { sample: (draws) => this.#sample(sampler, draws) };
  }

  async forward(step: Step): Promise<StepResult> {
    this.#checkIdle();
    this.#check(step);
    this.#ledger.check(step);
    return await this.#track(this.#run(step));
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Both batches at the same time: neither reads or writes what the other writes, and feeding touches the fast pool alone. */
  async #run({ fast, canonical }: Step): Promise<StepResult> {
    const [canonicalEnd, fastEnd] = await Promise.allSettled([
      canonical && this.#runCanonical(canonical),
      fast && this.#runFast(fast),
    ]);
    if (canonicalEnd.status === 'fulfilled' && fastEnd.status === 'fulfilled') {
      const { value: canonicalResult } = canonicalEnd;
      const { value: fastResult } = fastEnd;
      return { ...(fastResult && { fast: fastResult }), ...(canonicalResult && { canonical: canonicalResult }) };
    }
    throw reasonOf([canonicalEnd, fastEnd]);
  }

  async #runCanonical(batch: Batch): Promise<BatchResult> {
    const { canonical } = await this.#canonical.forward({ canonical: batch });
    assert(canonical, 'the canonical backend gave no result');
    this.#ledger.wroteCanonical(batch);
    return canonical;
  }

  async #runFast(batch: Batch): Promise<BatchResult> {
    for (;;) {
      const call = this.#planner.next(batch);
      const result = await this.#callFast(call, batch);
      if (call.kind === 'last') return result;
    }
  }

  async #callFast({ kind, batch, fed }: FastCall, own: Batch): Promise<BatchResult> {
    try {
      const { fast } = await this.#fast.forward({ fast: batch });
      assert(fast, 'the fast backend gave no result');
      for (const { s, from, end } of fed) this.#ledger.fed(own, s, from, end);
      if (kind === 'last') this.#ledger.wroteFast(own);
      return fast;
    } catch (error) {
      this.#ledger.lostFast(batch);
      throw error;
    }
  }

  #sample(sampler: TokenSampler, draws: readonly Draw[]): readonly Drawn[] | Promise<readonly Drawn[]> {
    this.#checkIdle();
    const drawn = sampler.sample(draws);
    return drawn instanceof Promise ? this.#track(drawn) : drawn;
  }

  /** Until it has settled, no other call may begin and `close` waits. */
  #track<Result>(call: Promise<Result>): Promise<Result> {
    const tracked = call.finally(() => {
      this.#inFlight = undefined;
    });
    this.#inFlight = tracked;
    return tracked;
  }

  #checkIdle(): void {
    const { name } = this.info;
    if (this.#closed) throw new StetError('STET_ERR_BACKEND_CLOSED', `the backend ${name} is closed`);
    if (this.#inFlight) throw new StetError('STET_ERR_BACKEND_BUSY', `the backend ${name} is running a step`);
  }

  async #close(): Promise<void> {
    // How the call ended is its caller's to know.
    await this.#inFlight?.catch(() => undefined);
    const ends = await Promise.allSettled([this.#fast.close(), this.#canonical.close()]);
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }
}

/** Why a step failed: a lost device before anything else, since its backend can be made anew, and then the first reason. */
function reasonOf(ends: readonly PromiseSettledResult<unknown>[]): unknown {
  const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []));
  return reasons.find((reason) => isStetError(reason) && reason.code === 'STET_ERR_DEVICE_LOST') ?? reasons[0];
}
