import {
  type BackendLoad,
  checkLoadSignal,
  checkWeightData,
  type Plan,
  StetError,
  type WeightData,
  weightBytes,
} from '@stet/backend';
import { type RopeTables, ropeTables } from '@stet/backend/numerics';
import { allocateKv, type KvLayer } from './kv-store.js';
import { type AttentionScratch, allocateAttention } from './ops/attention.js';

/** A plan with everything that it needs to run. */
export interface LoadedModel {
  readonly plan: Plan;
  /** By `WeightId`. */
  readonly weights: readonly WeightData[];
  readonly weightBytes: number;
  /** By `RopeId`, for all positions of the context. */
  readonly ropes: readonly RopeTables[];
  /** By `BufferId`: (maxRows × width). */
  readonly buffers: readonly Float32Array[];
  readonly kv: readonly KvLayer[];
  readonly blockSize: number;
  readonly attention: AttentionScratch;
}

/** Rejects with what the weight source rejects with, with `STET_ERR_BAD_WEIGHTS`, `STET_ERR_ABORTED` or `STET_ERR_OUT_OF_MEMORY`. */
export async function loadModel(load: BackendLoad): Promise<LoadedModel> {
  const { plan, blockSize, blockCount, maxRows } = load;
  const weights = await readWeights(load);
  try {
    return {
      plan,
      weights,
      weightBytes: weights.reduce((sum, data) => sum + weightBytes(data), 0),
      ropes: plan.ropes.map((rope) => ropeTables(rope, plan.contextLength)),
      buffers: plan.buffers.map((buffer) => new Float32Array(maxRows * buffer.width)),
      kv: allocateKv(plan, blockSize * blockCount),
      blockSize,
      attention: allocateAttention(plan.headSize),
    };
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new StetError('STET_ERR_OUT_OF_MEMORY', `no memory for ${blockCount} blocks and ${maxRows} rows`, { cause });
  }
}

async function readWeights(load: BackendLoad): Promise<WeightData[]> {
  const { plan, weights: source, onProgress, signal } = load;
  const weights: WeightData[] = [];
  for (const spec of plan.weights) {
    checkLoadSignal(signal);
    const data = await source.read(spec);
    checkWeightData(spec, data);
    weights.push(data);
    onProgress?.(weights.length, plan.weights.length);
  }
  checkLoadSignal(signal);
  return weights;
}
