import {
  type BackendInfo,
  type BackendLoad,
  checkLoadSignal,
  checkPlan,
  checkWeightData,
  NUMERICS_ID,
  StetError,
  weightBytes,
} from '@stet/backend';
import { type FakeBackend, ToyBackend } from './fake-backend.js';
import { type FakeMemory, fakeMemory, memoryBytes } from './fake-memory.js';
import type { FakeBackendOptions } from './fake-options.js';

/** A `BackendFactory` of fakes. */
export interface FakeBackendFactory {
  (load: BackendLoad): Promise<FakeBackend>;
  /** Bytes of all backends of this factory that are not closed. */
  liveBytes(): number;
}

/** A factory of fakes. It takes any block size of at least 1, so that tests can cross block borders early. */
export function createFakeBackend(options: FakeBackendOptions = {}): FakeBackendFactory {
  let liveBytes = 0;
  const create = async (load: BackendLoad): Promise<FakeBackend> => {
    checkPlan(load.plan);
    checkSizes(load);
    const memory = fakeMemory(load.blockCount, load.blockSize);
    const bytes = memoryBytes(memory);
    liveBytes += bytes;
    try {
      const info = infoOf(load, memory, await readWeights(load, options), options);
      return new ToyBackend(memory, info, options, () => {
        if (options.fault !== 'leaks') liveBytes -= bytes;
      });
    } catch (error) {
      if (options.fault !== 'leaksOnFailedLoad') liveBytes -= bytes;
      throw error;
    }
  };
  return Object.assign(create, { liveBytes: () => liveBytes });
}

function checkSizes(load: BackendLoad): void {
  const sizes: [string, number, number][] = [
    ['vocabSize', load.plan.vocabSize, 2],
    ['blockSize', load.blockSize, 1],
    ['blockCount', load.blockCount, 2],
    ['maxRows', load.maxRows, 1],
  ];
  for (const [name, value, least] of sizes) {
    if (!Number.isInteger(value) || value < least) {
      throw new StetError('STET_ERR_UNSUPPORTED', `${name} is ${value}, expected at least ${least}`);
    }
  }
}

/** Reads every weight as a real backend would, to check it; returns their bytes. */
async function readWeights(load: BackendLoad, options: FakeBackendOptions): Promise<number> {
  const signal = options.fault === 'ignoresAbort' ? undefined : load.signal;
  let bytes = 0;
  for (const [index, spec] of load.plan.weights.entries()) {
    checkLoadSignal(signal);
    const data = await load.weights.read(spec);
    checkWeightData(spec, data);
    bytes += weightBytes(data);
    load.onProgress?.(index + 1, load.plan.weights.length);
  }
  checkLoadSignal(signal);
  return bytes;
}

function infoOf(load: BackendLoad, memory: FakeMemory, loadedBytes: number, options: FakeBackendOptions): BackendInfo {
  const { mismatchRate = 0, fastKvDeviates = true, script, canonicalShape, fault = 'none' } = options;
  const isSame = mismatchRate === 0 && !fastKvDeviates && !script && fault === 'none';
  return {
    name: 'fake',
    device: 'integer hashing',
    numerics: NUMERICS_ID,
    canonical: canonicalShape ? 'fixed-shape' : 'portable',
    ...(canonicalShape && { canonicalShape }),
    fast: isSame || fault === 'claimsFastIsCanonical' ? 'canonical' : 'free',
    vocabSize: load.plan.vocabSize,
    contextLength: load.plan.contextLength,
    blockSize: load.blockSize,
    blockCount: load.blockCount,
    maxRows: load.maxRows,
    memory: { weightBytes: loadedBytes, kvBytes: memoryBytes(memory), scratchBytes: 0 },
  };
}
