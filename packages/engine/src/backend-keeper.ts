import { type Backend, type BackendInfo, isStetError, StetError } from '@stet/backend';
import { sleep } from './sleep.js';

export interface BackendKeeperOptions {
  /** Makes a backend as the first one was made. The signal fires when the engine is closed. */
  readonly create: (signal: AbortSignal) => Promise<Backend>;
  /** Throws unless the one can take the place of the other. */
  readonly check: (lost: BackendInfo, made: BackendInfo) => void;
  /** Times that a backend is made anew while no step commits anything. */
  readonly maxRecreations: number;
  /** Before the second of them in a row, twice as long before each further one, a minute at most; the first begins at once. */
  readonly recreationWaitMs: number;
}

const LONGEST_WAIT_MS = 60_000;

/** The backend of an engine, and a new one in its place when its device is lost. */
export class BackendKeeper {
  readonly #options: BackendKeeperOptions;
  readonly #closing = new AbortController();
  #backend: Backend;
  #recreations = 0;
  /** Tries since something was committed. */
  #triesInARow = 0;

  constructor(backend: Backend, options: BackendKeeperOptions) {
    this.#backend = backend;
    this.#options = options;
  }

  /** The one that runs steps; a closed one while it is being replaced, and after that has failed. */
  get backend(): Backend {
    return this.#backend;
  }

  /** Backends that took the place of a lost one. */
  get recreations(): number {
    return this.#recreations;
  }

  /** A step has committed something: the device works. */
  noteCommit(): void {
    this.#triesInARow = 0;
  }

  /**
   * Closes the backend whose device is lost and makes another, trying again as often as the limit allows. Rejects with
   * `STET_ERR_DEVICE_LOST` when that has not helped or what was made is no successor, with the reason of `stop` after that.
   */
  async replace(lost: StetError): Promise<void> {
    const { signal } = this.#closing;
    const { info } = this.#backend;
    // There is nothing left to free on the device, so a complaint helps nobody.
    await this.#backend.close().catch(() => {});
    this.#backend = await this.#recreate(lost);
    signal.throwIfAborted();
    try {
      this.#options.check(info, this.#backend.info);
    } catch (error) {
      await this.#backend.close();
      throw goneForGood('the backend made anew cannot take its place', error);
    }
    this.#recreations++;
  }

  /** Nothing is made any more: a creation in flight is aborted. */
  stop(reason: StetError): void {
    this.#closing.abort(reason);
  }

  /** Frees what there is. No replacement may be in flight. */
  close(): Promise<void> {
    return this.#backend.close();
  }

  async #recreate(lost: StetError): Promise<Backend> {
    const { signal } = this.#closing;
    const { create, maxRecreations, recreationWaitMs } = this.#options;
    let reason: unknown = lost;
    while (this.#triesInARow < maxRecreations) {
      const waitMs = this.#triesInARow === 0 ? 0 : recreationWaitMs * 2 ** (this.#triesInARow - 1);
      await sleep(Math.min(waitMs, LONGEST_WAIT_MS), signal);
      this.#triesInARow++;
      try {
        return await create(signal);
      } catch (error) {
        signal.throwIfAborted();
        reason = error;
      }
    }
    if (maxRecreations === 0) throw lost;
    const tries = maxRecreations === 1 ? 'a backend' : `${maxRecreations} backends`;
    throw goneForGood(`${tries} made anew did not bring it back`, reason);
  }
}

function goneForGood(what: string, reason: unknown): StetError {
  const why = isStetError(reason) ? `${reason.code}: ${reason.message}` : String(reason);
  return new StetError('STET_ERR_DEVICE_LOST', `the device was lost, and ${what}: ${why}`, { cause: reason });
}
