import {
  type Backend,
  type BackendFactory,
  type BackendInfo,
  type BackendLoad,
  createStepChecker,
  type Draw,
  type Drawn,
  NUMERICS_ID,
  type Step,
  type StepResult,
  StetError,
  type TokenSampler,
} from '@stet/backend';
import { type Addon, type NativeHandle, requireAddon, rethrowNative } from './addon.js';
import { loadNative } from './load.js';
import { type CpuOptions, chooseFast, chooseIsa, chooseThreads, describeDevice, type FastOption } from './options.js';
import { fastSchedule } from './program.js';
import { positionsReached, Ropes } from './ropes.js';
import { NativeDraws } from './sampler.js';
import { checkCanonical } from './self-test.js';
import { StepMemory } from './step-memory.js';

/**
 * A factory of backends on the CPU's SIMD units. Canonical steps have the bits of docs/NUMERICS.md on every
 * instruction set and for any number of threads; fast ones use other kernels on the same weights, tables and K/V.
 * Each backend has its own threads, which sleep between steps and end with `close`.
 *
 * A load rejects with `STET_ERR_BACKEND_UNAVAILABLE` where the addon is missing, `STET_ERR_UNSUPPORTED` for an option
 * that this machine has not, `STET_ERR_CANONICAL_REFUSED` where the golden vectors fail, `STET_ERR_OUT_OF_MEMORY`.
 */
export function createCpuBackend(options: CpuOptions = {}): BackendFactory {
  return async (load) => {
    const addon = requireAddon();
    const isa = chooseIsa(addon, options.isa ?? 'auto');
    const threads = chooseThreads(options.threads);
    const fast = chooseFast(options.fast);
    if (options.selfTest ?? true) {
      const kernels = { isa: isa.name, fast };
      await checkCanonical(addon, kernels, createCpuBackend({ ...kernels, threads, selfTest: false }));
    }
    const { packedWeights } = options;
    const handle = await loadNative(addon, { isa: isa.name, fast, threads, packedWeights }, load);
    const parts = {
      addon,
      handle,
      ropes: new Ropes(addon, handle, load.plan),
      draws: new NativeDraws(addon, handle, isa.name),
    };
    return new CpuBackend(parts, infoOf(addon, handle, describeDevice(isa, threads, fast), fast, load));
  };
}

interface CpuBackendParts {
  readonly addon: Addon;
  readonly handle: NativeHandle;
  readonly ropes: Ropes;
  readonly draws: NativeDraws;
}

class CpuBackend implements Backend {
  readonly info: BackendInfo;
  readonly sampler: TokenSampler = { sample: (draws) => this.#sample(draws) };
  readonly #addon: Addon;
  readonly #handle: NativeHandle;
  readonly #ropes: Ropes;
  readonly #check: (step: Step) => void;
  readonly #fast: StepMemory;
  readonly #canonical: StepMemory;
  readonly #draws: NativeDraws;
  #inFlight: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor({ addon, handle, ropes, draws }: CpuBackendParts, info: BackendInfo) {
    this.info = info;
    this.#addon = addon;
    this.#handle = handle;
    this.#ropes = ropes;
    this.#check = createStepChecker(info);
    this.#fast = new StepMemory(addon, handle, 'fast', info);
    this.#canonical = new StepMemory(addon, handle, 'canonical', info);
    this.#draws = draws;
  }

  async forward(step: Step): Promise<StepResult> {
    this.#checkIdle();
    this.#check(step);
    const { fast, canonical } = step;
    if (fast) this.#fast.write(fast);
    if (canonical) this.#canonical.write(canonical);
    try {
      this.#inFlight = this.#run(step);
      await this.#inFlight;
    } catch (error) {
      rethrowNative(error);
    } finally {
      this.#inFlight = undefined;
    }
    return {
      ...(fast ? { fast: this.#fast.result(fast) } : {}),
      ...(canonical ? { canonical: this.#canonical.result(canonical) } : {}),
    };
  }

  async #run(step: Step): Promise<void> {
    const positionCount = positionsReached(step);
    if (!this.#ropes.reaches(positionCount)) await this.#ropes.extendTo(positionCount);
    await this.#addon.forward(this.#handle, step.fast !== undefined, step.canonical !== undefined);
  }

  #sample(draws: readonly Draw[]): readonly Drawn[] | Promise<readonly Drawn[]> {
    this.#checkIdle();
    const drawn = this.#draws.make(draws);
    if (!(drawn instanceof Promise)) return drawn;
    const running = drawn.finally(() => {
      this.#inFlight = undefined;
    });
    this.#inFlight = running;
    return running;
  }

  #checkIdle(): void {
    if (this.#closed) throw new StetError('STET_ERR_BACKEND_CLOSED', 'the CPU backend is closed');
    if (this.#inFlight) throw new StetError('STET_ERR_BACKEND_BUSY', 'the CPU backend is running a step');
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    // How the step ended is its caller's to know.
    await this.#inFlight?.catch(() => undefined);
    await this.#addon.close(this.#handle);
  }
}

function infoOf(
  addon: Addon,
  handle: NativeHandle,
  device: string,
  fast: FastOption,
  { plan, blockSize, blockCount, maxRows }: BackendLoad,
): BackendInfo {
  return {
    name: 'cpu',
    device,
    numerics: NUMERICS_ID,
    canonical: 'portable',
    fast: fastSchedule(plan, fast),
    vocabSize: plan.vocabSize,
    contextLength: plan.contextLength,
    blockSize,
    blockCount,
    maxRows,
    memory: addon.memory(handle),
  };
}
