import {
  assertNever,
  type BackendLoad,
  checkLoad,
  checkLoadSignal,
  checkWeightData,
  StetError,
  type WeightData,
  type WeightSpec,
} from '@stet/backend';
import { type Addon, type IsaName, type NativeHandle, rethrowNative } from './addon.js';
import { type FastOption, kernelsNumber, type PackedWeightsOptions } from './options.js';
import { PackedWeights } from './packed/packed-weights.js';
import { compileProgram } from './program.js';

/** Most rows of one batch, so that the tasks of every section can be counted in 16 bits. */
export const MAX_ROWS = 4096;
/** Largest vocabulary, for the same reason. */
export const MAX_VOCAB_SIZE = 400_000;

/** Widest head that the kernels take (kernels/cpu/kernels.h). */
export const MAX_HEAD_SIZE = 256;

/**
 * Makes a runtime and fills it: from a file of packed weights where there is one, else with weights one at a time, each
 * packed off this thread and then dropped; two are in memory at most. Rejects with a `StetError`, after everything was freed.
 */
export async function loadNative(
  addon: Addon,
  { isa, fast, threads, packedWeights }: NativeLoadOptions,
  load: BackendLoad,
): Promise<NativeHandle> {
  checkLoad(load);
  checkLimits(load);
  checkLoadSignal(load.signal);
  const { words, constants } = compileProgram(load, fast);
  const kernels = kernelsNumber(isa, fast);
  let handle: NativeHandle;
  try {
    handle = addon.create(kernels, threads, words, constants);
  } catch (error) {
    rethrowNative(error);
  }
  try {
    const packed = packedWeights && new PackedWeights(addon, { handle, kernels, load, options: packedWeights });
    if (await packed?.read()) {
      load.onProgress?.(load.plan.weights.length, load.plan.weights.length);
    } else {
      await fill(addon, handle, load);
      await packed?.keep();
    }
    packed?.report();
    return handle;
  } catch (error) {
    await addon.close(handle);
    return rethrowNative(error);
  }
}

export interface NativeLoadOptions {
  readonly isa: IsaName;
  readonly fast: FastOption;
  readonly threads: number;
  readonly packedWeights?: PackedWeightsOptions | undefined;
}

function checkLimits({ plan, maxRows }: BackendLoad): void {
  if (maxRows > MAX_ROWS) {
    throw new StetError('STET_ERR_UNSUPPORTED', `maxRows is ${maxRows}, the CPU backend takes at most ${MAX_ROWS}`);
  }
  if (plan.headSize > MAX_HEAD_SIZE) {
    const message = `heads have ${plan.headSize} elements, the CPU backend takes at most ${MAX_HEAD_SIZE}`;
    throw new StetError('STET_ERR_UNSUPPORTED', message);
  }
  if (plan.vocabSize > MAX_VOCAB_SIZE) {
    const message = `the vocabulary has ${plan.vocabSize} tokens, the CPU backend takes at most ${MAX_VOCAB_SIZE}`;
    throw new StetError('STET_ERR_UNSUPPORTED', message);
  }
}

/** While one weight is packed on another thread, the next is read on this one. */
async function fill(addon: Addon, handle: NativeHandle, load: BackendLoad): Promise<void> {
  const { plan, weights, onProgress, signal } = load;
  let packing: Promise<void> = Promise.resolve();
  try {
    for (const [index, spec] of plan.weights.entries()) {
      checkLoadSignal(signal);
      const data = await unlessAborted(weights.read(spec), signal);
      await packing;
      packing = setWeight(addon, handle, index, spec, data).then(() => onProgress?.(index + 1, plan.weights.length));
      // A failure is thrown by the next turn; until then it is nobody's unhandled rejection.
      packing.catch(() => {});
    }
    await packing;
    checkLoadSignal(signal);
  } catch (error) {
    await Promise.allSettled([packing]);
    throw error;
  }
}

async function setWeight(
  addon: Addon,
  handle: NativeHandle,
  index: number,
  spec: WeightSpec,
  data: WeightData,
): Promise<void> {
  checkWeightData(spec, data);
  switch (data.kind) {
    case 'bf16':
      return addon.packBf16(handle, index, data.bits);
    case 'q8':
      return addon.packQ8(handle, index, data.quants, data.scales);
    case 'q4':
      return addon.packQ4(handle, index, data.nibbles, data.scales, data.centres);
    case 'vector':
      return addon.setVector(handle, index, data.values);
    default:
      return assertNever(data);
  }
}

/** Rejects as soon as the signal is aborted, even if the source never answers. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
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
