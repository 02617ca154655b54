import { assert, type WeightId } from '@stet/backend';
import type { DeviceMatrix } from '../weights/device-weight.js';
import type { DeviceModel } from './device-model.js';

/** A weight that `checkPlan` has found to be a matrix. */
export function matrixOf({ weights }: DeviceModel, id: WeightId): DeviceMatrix {
  const weight = weights[id];
  assert(weight?.kind === 'matrix', `weight ${id} is not a matrix`);
  return weight;
}

/** The buffer of a weight that `checkPlan` has found to be a vector. */
export function vectorOf({ weights }: DeviceModel, id: WeightId): GPUBuffer {
  const weight = weights[id];
  assert(weight?.kind === 'vector', `weight ${id} is not a vector`);
  return weight.buffer;
}
