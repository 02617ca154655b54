import { type BackendLoad, checkLoadSignal, checkWeightData, StetError, weightBytes } from '@stet/backend';
import { checked } from '../device/error-scopes.js';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { WebGpu } from '../device/web-gpu.js';
import { type KvBuffers, type KvLayout, kvLayout } from '../kv/kv-layout.js';
import type { DeviceModel } from '../program/device-model.js';
import type { DeviceWeight } from '../weights/device-weight.js';
import { uploadWeight } from '../weights/upload-weight.js';
import { uploadRopes } from './rope-buffers.js';

/** Bytes of weights that are on their way to the device at most, besides one weight: it keeps what is written until it ran. */
const UPLOAD_BYTES = 64 * 2 ** 20;

export interface LoadedModel {
  readonly model: DeviceModel;
  readonly weightBytes: number;
  readonly kvBytes: number;
}

/** Fills `memory` with a model: K/V first, so that a pool that is too large is known before weights are read. */
export async function loadModel(gpu: WebGpu, memory: GpuMemory, load: BackendLoad): Promise<LoadedModel> {
  const { plan, maxRows, signal } = load;
  const layout = kvLayout(plan, load.blockSize, load.blockCount);
  const kv = await checked(gpu, 'the K/V pool', () => allocateKv(memory, layout, plan.layerCount));
  const kvBytes = memory.bytes;
  const buffers = await checked(gpu, 'buffers of rows', () =>
    plan.buffers.map(({ name, width }) => memory.allocate(name, maxRows * width * 4, GPU_USAGE.STORAGE)),
  );
  const ropes = await uploadRopes(gpu, memory, plan, signal);
  const before = memory.bytes;
  const weights = await uploadWeights(gpu, memory, load);
  return {
    model: { plan, maxRows, buffers, weights, ropes, kvLayout: layout, kv },
    weightBytes: memory.bytes - before,
    kvBytes,
  };
}

function allocateKv(memory: GpuMemory, { layerBytes }: KvLayout, layerCount: number): KvBuffers[] {
  return Array.from({ length: layerCount }, (_, layer) => ({
    keys: memory.allocate(`keys of layer ${layer}`, layerBytes, GPU_USAGE.STORAGE),
    values: memory.allocate(`values of layer ${layer}`, layerBytes, GPU_USAGE.STORAGE),
  }));
}

async function uploadWeights(gpu: WebGpu, memory: GpuMemory, load: BackendLoad): Promise<DeviceWeight[]> {
  const { plan, weights: source, signal, onProgress } = load;
  const weights: DeviceWeight[] = [];
  let bytesOnTheirWay = 0;
  for (const spec of plan.weights) {
    checkLoadSignal(signal);
    const data = await unlessAborted(source.read(spec), signal);
    checkWeightData(spec, data);
    weights.push(await checked(gpu, spec.name, () => uploadWeight(gpu, memory, spec, data)));
    bytesOnTheirWay += weightBytes(data);
    if (bytesOnTheirWay >= UPLOAD_BYTES) {
      bytesOnTheirWay = 0;
      gpu.device.queue.submit([]);
      await gpu.unlessLost(gpu.device.queue.onSubmittedWorkDone());
    }
    onProgress?.(weights.length, plan.weights.length);
  }
  checkLoadSignal(signal);
  return weights;
}

/** Rejects as soon as the signal is aborted, even if the promise never settles. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(new StetError('STET_ERR_ABORTED', 'loading was aborted', { cause: signal.reason }));
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
