import {
  type Backend,
  type BackendFactory,
  type BackendInfo,
  type BackendLoad,
  checkLoad,
  checkLoadSignal,
  createStepChecker,
  NUMERICS_ID,
  type Step,
  type StepResult,
  StetError,
} from '@stet/backend';
import { checked } from './device/error-scopes.js';
import { GpuMemory } from './device/memory.js';
import { WebGpu, type WebGpuOptions } from './device/web-gpu.js';
import { checkLimits } from './load/limits.js';
import { loadModel, unlessAborted } from './load/load-model.js';
import { ProgramScratch } from './program/scratch.js';
import { checkCanonical } from './self-test.js';
import { StepRunner } from './step/step-runner.js';

export interface WebGpuBackendOptions extends WebGpuOptions {
  /** Runs on this device, which stays open when the backend is closed; opens one of its own by default. */
  readonly device?: WebGpu;
  /** Whether golden vectors and models are checked before the first load on a device; the default is true. */
  readonly selfTest?: boolean;
}

/**
 * A factory of backends on a GPU by WebGPU, in a browser or in Node. Canonical steps have the bits of docs/NUMERICS.md on every
 * device; fast ones use other kernels on the same weights, tables and K/V.
 *
 * A load rejects with `STET_ERR_BACKEND_UNAVAILABLE` where there is no WebGPU, `STET_ERR_UNSUPPORTED` for sizes over the device's
 * limits, which it names, `STET_ERR_CANONICAL_REFUSED` where the golden vectors fail, `STET_ERR_OUT_OF_MEMORY`,
 * `STET_ERR_DEVICE_LOST`, `STET_ERR_BACKEND_FAILED` for what else the device reports.
 */
export function createWebGpuBackend(options: WebGpuBackendOptions = {}): BackendFactory {
  return async (load) => {
    checkLoad(load);
    checkLimits(load);
    checkLoadSignal(load.signal);
    const gpu = options.device ?? (await WebGpu.open(options));
    const closeDevice = (): void => {
      if (!options.device) gpu.close();
    };
    try {
      gpu.checkAlive();
      if (options.selfTest ?? true) {
        const untested = createWebGpuBackend({ device: gpu, selfTest: false });
        await unlessAborted(checkCanonical(gpu, untested), load.signal);
      }
      return await loadOn(gpu, load, closeDevice);
    } catch (error) {
      closeDevice();
      throw error;
    }
  };
}

export interface ProgramOptions {
  /** Bytes of the buffer of logits; the default serves all but tests. */
  readonly logitsBytes?: number;
}

/** Loads a checked model on a device, without a self-test. `onClose` is called when the backend has been closed. */
export async function loadOn(
  gpu: WebGpu,
  load: BackendLoad,
  onClose: () => void = () => {},
  { logitsBytes }: ProgramOptions = {},
): Promise<Backend> {
  const memory = new GpuMemory(gpu.device);
  try {
    const { model, weightBytes, kvBytes } = await loadModel(gpu, memory, load);
    const scratch = await checked(gpu, 'buffers of programs', () => new ProgramScratch(memory, model, logitsBytes));
    const runner = await StepRunner.create(gpu, memory, model, scratch);
    gpu.checkErrors();
    checkLoadSignal(load.signal);
    const scratchBytes = memory.bytes - weightBytes - kvBytes;
    return new WebGpuBackend(
      { gpu, memory, runner, onClose },
      infoOf(gpu, load, { weightBytes, kvBytes, scratchBytes }),
    );
  } catch (error) {
    memory.freeAll();
    throw error;
  }
}

interface WebGpuBackendParts {
  readonly gpu: WebGpu;
  readonly memory: GpuMemory;
  readonly runner: StepRunner;
  readonly onClose: () => void;
}

class WebGpuBackend implements Backend {
  readonly info: BackendInfo;
  readonly #parts: WebGpuBackendParts;
  readonly #check: (step: Step) => void;
  #inFlight: Promise<StepResult> | undefined;
  #closed: Promise<void> | undefined;

  constructor(parts: WebGpuBackendParts, info: BackendInfo) {
    this.info = info;
    this.#parts = parts;
    this.#check = createStepChecker(info);
  }

  async forward(step: Step): Promise<StepResult> {
    if (this.#closed) throw new StetError('STET_ERR_BACKEND_CLOSED', 'the WebGPU backend is closed');
    if (this.#inFlight) throw new StetError('STET_ERR_BACKEND_BUSY', 'the WebGPU backend is running a step');
    this.#check(step);
    this.#parts.gpu.checkAlive();
    this.#inFlight = this.#parts.runner.run(step);
    try {
      return await this.#inFlight;
    } finally {
      this.#inFlight = undefined;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    // How the step ended is its caller's to know.
    await this.#inFlight?.catch(() => undefined);
    this.#parts.memory.freeAll();
    this.#parts.onClose();
  }
}

function infoOf(
  gpu: WebGpu,
  { plan, blockSize, blockCount, maxRows }: BackendLoad,
  memory: BackendInfo['memory'],
): BackendInfo {
  return {
    name: 'webgpu',
    device: gpu.words,
    numerics: NUMERICS_ID,
    canonical: 'portable',
    fast: 'free',
    vocabSize: plan.vocabSize,
    contextLength: plan.contextLength,
    blockSize,
    blockCount,
    maxRows,
    memory,
  };
}
