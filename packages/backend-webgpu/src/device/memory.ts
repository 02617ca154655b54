import { StetError } from '@stet/backend';

let liveTotal = 0;

/** Bytes of all device buffers that are not destroyed yet. */
export function liveBytes(): number {
  return liveTotal;
}

/** Buffers of one owner, counted, destroyed together. */
export class GpuMemory {
  readonly #device: GPUDevice;
  readonly #buffers = new Set<GPUBuffer>();
  #bytes = 0;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Bytes of the buffers that are alive. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A buffer of at least 16 bytes and a multiple of 4, filled with 0. Throws `STET_ERR_UNSUPPORTED` over the device's limits. */
  allocate(label: string, byteCount: number, usage: GPUBufferUsageFlags): GPUBuffer {
    const size = Math.max(16, Math.ceil(byteCount / 4) * 4);
    const { maxBufferSize, maxStorageBufferBindingSize } = this.#device.limits;
    const isStorage = (usage & GPU_USAGE.STORAGE) !== 0;
    const limit = isStorage ? Math.min(maxBufferSize, maxStorageBufferBindingSize) : maxBufferSize;
    if (size > limit) {
      const name = isStorage && limit === maxStorageBufferBindingSize ? 'maxStorageBufferBindingSize' : 'maxBufferSize';
      throw new StetError('STET_ERR_UNSUPPORTED', `${label} needs ${size} bytes, the device's ${name} is ${limit}`);
    }
    const buffer = this.#device.createBuffer({ label, size, usage });
    this.#buffers.add(buffer);
    this.#bytes += size;
    liveTotal += size;
    return buffer;
  }

  free(buffer: GPUBuffer): void {
    if (!this.#buffers.delete(buffer)) return;
    this.#bytes -= buffer.size;
    liveTotal -= buffer.size;
    buffer.destroy();
  }

  freeAll(): void {
    for (const buffer of this.#buffers) this.free(buffer);
  }
}

/** `GPUBufferUsage` of the specification; Node has no such global. */
export const GPU_USAGE = {
  MAP_READ: 0x0001,
  COPY_SRC: 0x0004,
  COPY_DST: 0x0008,
  UNIFORM: 0x0040,
  STORAGE: 0x0080,
} as const;

/** `GPUMapMode.READ` and `GPUShaderStage.COMPUTE`. */
export const GPU_MAP_READ = 0x0001;
export const GPU_STAGE_COMPUTE = 0x4;
