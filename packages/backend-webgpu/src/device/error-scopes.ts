import { StetError } from '@stet/backend';
import { lossOf, type WebGpu } from './web-gpu.js';

/**
 * Runs `work` and waits for what the device says of it. Rejects with `STET_ERR_OUT_OF_MEMORY` where a buffer found no memory,
 * `STET_ERR_BACKEND_FAILED` for any other complaint, `STET_ERR_DEVICE_LOST`. `what` begins the message.
 *
 * The device has one stack of scopes, which others on the same device use too: so `work` is synchronous.
 */
export async function checked<T>(gpu: WebGpu, what: string, work: () => T): Promise<T> {
  const { result, errors } = inScopes(gpu.device, work);
  await throwErrors(gpu, what, errors);
  return result;
}

export interface DeviceErrors {
  readonly outOfMemory: Promise<GPUError | null>;
  readonly others: Promise<readonly (GPUError | null)[]>;
}

/** The result of `work`, and the errors it made on the device, which come later. */
export function inScopes<T>(device: GPUDevice, work: () => T): { result: T; errors: DeviceErrors } {
  device.pushErrorScope('internal');
  device.pushErrorScope('validation');
  device.pushErrorScope('out-of-memory');
  let errors: DeviceErrors;
  try {
    const result = work();
    errors = popScopes(device);
    return { result, errors };
  } catch (error) {
    ignore(popScopes(device));
    throw error;
  }
}

function popScopes(device: GPUDevice): DeviceErrors {
  return {
    outOfMemory: device.popErrorScope(),
    others: Promise.all([device.popErrorScope(), device.popErrorScope()]),
  };
}

function ignore({ outOfMemory, others }: DeviceErrors): void {
  outOfMemory.catch(() => undefined);
  others.catch(() => undefined);
}

/** Waits for the errors of {@link inScopes} and rejects with the first of them. */
export async function throwErrors(gpu: WebGpu, what: string, { outOfMemory, others }: DeviceErrors): Promise<void> {
  let noMemory: GPUError | null;
  let failures: readonly (GPUError | null)[];
  try {
    [noMemory, failures] = await gpu.unlessLost(Promise.all([outOfMemory, others]));
  } catch (cause) {
    throw await lossOf(gpu, cause, what);
  }
  if (noMemory) throw new StetError('STET_ERR_OUT_OF_MEMORY', `${what}: no memory on the device: ${noMemory.message}`);
  const failure = failures.find((error) => error !== null);
  if (failure) throw new StetError('STET_ERR_BACKEND_FAILED', `${what}: ${failure.message}`);
}
