import { createWebGpuBackend, findGpu, WebGpu } from '@stet/backend-webgpu';
import type { BackendSource } from '../backends.js';
import { allowSoftwareGpu } from '../software-gpu.js';
import { type Clock, wallClock } from './clock.js';

/** Passes that one forward can have: copies of its results interrupt them. */
const MAX_PASSES = 64;
const TIMESTAMP_BYTES = 8;
/** `GPUBufferUsage` and `GPUMapMode` of the specification; Node has no such globals. */
const USAGE = { MAP_READ: 0x0001, COPY_SRC: 0x0004, COPY_DST: 0x0008, QUERY_RESOLVE: 0x0200 } as const;
const MAP_READ = 0x0001;

export interface TimedBackends extends BackendSource {
  readonly clock: Clock;
}

/**
 * Backends on one device, and a clock of its own where the adapter has `timestamp-query`: the time of the compute passes of a
 * forward, without submission and reading back. Elsewhere the clock is wall time. The backends do not test themselves.
 */
export async function openTimedWebGpu(): Promise<TimedBackends> {
  allowSoftwareGpu();
  // Dawn rounds timestamps to 100 µs unless it is told not to; a page has no such choice.
  const gpu = await findGpu({ dawn: ['disable-dawn-features=timestamp_quantization'] });
  let clock: Clock = wallClock;
  const device = await WebGpu.open({
    gpu: withTimestamps(gpu, (made) => {
      clock = new PassClock(made);
    }),
  });
  return { create: createWebGpuBackend({ device, selfTest: false }), clock, close: () => device.close() };
}

/** The same GPU, but devices of it have `timestamp-query` where the adapter does; `onDevice` is called with those. */
function withTimestamps(gpu: GPU, onDevice: (device: GPUDevice) => void): GPU {
  const timed: Pick<GPU, 'wgslLanguageFeatures' | 'requestAdapter'> = {
    wgslLanguageFeatures: gpu.wgslLanguageFeatures,
    requestAdapter: async (options) => {
      const adapter = await gpu.requestAdapter(options);
      if (!adapter?.features.has('timestamp-query')) return adapter;
      const { features, limits, info } = adapter;
      const requestDevice = async (descriptor: GPUDeviceDescriptor = {}): Promise<GPUDevice> => {
        const requiredFeatures = [...(descriptor.requiredFeatures ?? []), 'timestamp-query' as const];
        const device = await adapter.requestDevice({ ...descriptor, requiredFeatures });
        onDevice(device);
        return device;
      };
      return { features, limits, info, requestDevice } as GPUAdapter;
    },
  };
  return timed as GPU;
}

/** Has every compute pass of a device write when it begins and ends, while a forward is timed. */
class PassClock implements Clock {
  readonly words = 'timestamp-query';
  readonly #times: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #readback: GPUBuffer;
  #isOn = false;
  #passCount = 0;

  constructor(device: GPUDevice) {
    const size = 2 * MAX_PASSES * TIMESTAMP_BYTES;
    this.#times = device.createQuerySet({ type: 'timestamp', count: 2 * MAX_PASSES });
    this.#resolved = device.createBuffer({ size, usage: USAGE.QUERY_RESOLVE | USAGE.COPY_SRC });
    this.#readback = device.createBuffer({ size, usage: USAGE.MAP_READ | USAGE.COPY_DST });
    const create = device.createCommandEncoder.bind(device);
    device.createCommandEncoder = (descriptor) => this.#timed(create(descriptor));
  }

  async seconds(forward: () => Promise<unknown>): Promise<number> {
    this.#isOn = true;
    this.#passCount = 0;
    try {
      await forward();
    } finally {
      this.#isOn = false;
    }
    if (this.#passCount === 0) throw new Error('the forward had no compute pass');
    const byteCount = 2 * this.#passCount * TIMESTAMP_BYTES;
    await this.#readback.mapAsync(MAP_READ, 0, byteCount);
    const nanoseconds = new BigUint64Array(this.#readback.getMappedRange(0, byteCount).slice(0));
    this.#readback.unmap();
    let sum = 0n;
    for (let pass = 0; pass < this.#passCount; pass++) sum += nanoseconds[2 * pass + 1]! - nanoseconds[2 * pass]!;
    return Number(sum) / 1e9;
  }

  #timed(encoder: GPUCommandEncoder): GPUCommandEncoder {
    if (!this.#isOn) return encoder;
    const beginPass = encoder.beginComputePass.bind(encoder);
    const finish = encoder.finish.bind(encoder);
    encoder.beginComputePass = (descriptor) => {
      if (this.#passCount === MAX_PASSES) throw new Error(`a forward has more than ${MAX_PASSES} compute passes`);
      const first = 2 * this.#passCount++;
      const indices = { beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 };
      return beginPass({ ...descriptor, timestampWrites: { querySet: this.#times, ...indices } });
    };
    encoder.finish = (descriptor) => {
      const count = 2 * this.#passCount;
      encoder.resolveQuerySet(this.#times, 0, count, this.#resolved, 0);
      encoder.copyBufferToBuffer(this.#resolved, 0, this.#readback, 0, count * TIMESTAMP_BYTES);
      return finish(descriptor);
    };
    return encoder;
  }
}
