import {
  assert,
  type Backend,
  type BackendFactory,
  type BackendInfo,
  type BackendLoad,
  checkLoad,
  checkStep,
  NUMERICS_ID,
  type Step,
  type StepResult,
  StetError,
} from '@stet/backend';
import { kvSlotBytes } from './kv-store.js';
import { type LoadedModel, loadModel } from './load-model.js';
import { createPacer } from './pacer.js';
import { runBatch } from './run-batch.js';

/**
 * The canonical numerics as a backend: slow, portable, and the definition that the others are held against. Its fast
 * schedule is the canonical one. It runs on the caller's thread and yields to the event loop every few milliseconds.
 */
export const createReferenceBackend: BackendFactory = async (load: BackendLoad): Promise<Backend> => {
  checkLoad(load);
  return new ReferenceBackend(load, await loadModel(load));
};

class ReferenceBackend implements Backend {
  readonly info: BackendInfo;
  #model: LoadedModel | undefined;
  #inFlight: Promise<StepResult> | undefined;

  constructor(load: BackendLoad, model: LoadedModel) {
    this.#model = model;
    this.info = infoOf(load, model);
  }

  async forward(step: Step): Promise<StepResult> {
    if (!this.#model) throw new StetError('STET_ERR_BACKEND_CLOSED', 'the reference backend is closed');
    if (this.#inFlight) throw new StetError('STET_ERR_BACKEND_BUSY', 'the reference backend is running a step');
    checkStep(step, this.info);
    this.#inFlight = runStep(this.#model, step);
    try {
      return await this.#inFlight;
    } finally {
      this.#inFlight = undefined;
    }
  }

  async close(): Promise<void> {
    this.#model = undefined;
    await this.#inFlight?.catch(() => undefined);
  }
}

async function runStep(model: LoadedModel, step: Step): Promise<StepResult> {
  const pacer = createPacer();
  const result: { -readonly [schedule in keyof StepResult]: StepResult[schedule] } = {};
  if (step.fast) result.fast = await runBatch(model, step.fast, pacer);
  if (step.canonical) result.canonical = await runBatch(model, step.canonical, pacer);
  return result;
}

function infoOf(load: BackendLoad, model: LoadedModel): BackendInfo {
  const { plan, blockSize, blockCount, maxRows } = load;
  const slotCount = blockSize * blockCount;
  assert(model.kv.length === plan.layerCount, 'every layer has K/V');
  return {
    name: 'reference',
    device: 'JavaScript',
    numerics: NUMERICS_ID,
    canonical: 'portable',
    fast: 'canonical',
    vocabSize: plan.vocabSize,
    contextLength: plan.contextLength,
    blockSize,
    blockCount,
    maxRows,
    memory: {
      weightBytes: model.weightBytes,
      kvBytes: plan.layerCount * slotCount * kvSlotBytes(plan.kvHeadCount, plan.headSize),
      scratchBytes: model.buffers.reduce((sum, buffer) => sum + buffer.byteLength, 0),
    },
  };
}
