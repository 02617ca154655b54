import { assert, isStetError, StetError } from '@stet/backend';
import { type FindGpuOptions, findGpu, unavailable } from './find-gpu.js';
import type { Kernel, WgslFeatures } from './kernel.js';
import { GPU_STAGE_COMPUTE } from './memory.js';

export interface WebGpuOptions extends FindGpuOptions {
  /** Found by `findGpu` by default. */
  readonly gpu?: GPU;
  readonly powerPreference?: GPUPowerPreference;
}

/** Limits that kernels rely on, with what they need; asked for at the adapter's own value. */
const NEEDED_LIMITS = {
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeWorkgroupsPerDimension: 65535,
  maxStorageBufferBindingSize: 128 * 2 ** 20,
  maxBufferSize: 128 * 2 ** 20,
} as const;

export interface CompiledKernel {
  readonly kernel: Kernel;
  readonly layout: GPUBindGroupLayout;
  readonly pipeline: GPUComputePipeline;
}

/** A device with the pipelines that were made for it. Several backends may share one. */
export class WebGpu {
  readonly device: GPUDevice;
  readonly features: WgslFeatures;
  /** In words, e.g. `google swiftshader`. */
  readonly description: string;
  readonly #compiled = new Map<string, Promise<CompiledKernel>>();
  /** Called when the device is lost. */
  readonly #waiting = new Set<() => void>();
  #lostReason: string | undefined;
  #uncaptured: string | undefined;
  #isClosed = false;

  private constructor(device: GPUDevice, description: string, features: WgslFeatures) {
    this.device = device;
    this.description = description;
    this.features = features;
    void device.lost.then(({ reason, message }) => {
      this.#lostReason = message || reason;
      for (const onLost of this.#waiting) onLost();
    });
    device.addEventListener('uncapturederror', (event) => {
      event.preventDefault();
      this.#uncaptured ??= event.error.message;
    });
  }

  /** Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where there is no GPU or adapter, or where it lacks a limit, which it names. */
  static async open(options: WebGpuOptions = {}): Promise<WebGpu> {
    const gpu = options.gpu ?? (await findGpu(options));
    const { powerPreference = 'high-performance' } = options;
    const adapter = await gpu.requestAdapter({ powerPreference });
    if (!adapter) {
      throw unavailable(
        'WebGPU is there, but no adapter: update the graphics driver; on Debian without a GPU install chromium and libvulkan1 and set VK_ICD_FILENAMES=/usr/lib/chromium/vk_swiftshader_icd.json',
      );
    }
    for (const [name, needed] of Object.entries(NEEDED_LIMITS)) {
      const has = adapter.limits[name as keyof typeof NEEDED_LIMITS];
      if (has < needed) throw unavailable(`the adapter's ${name} is ${has}, the kernels need ${needed}`);
    }
    const requiredLimits = Object.fromEntries(
      Object.keys(NEEDED_LIMITS).map((name) => [name, adapter.limits[name as keyof typeof NEEDED_LIMITS]]),
    );
    const hasSubgroups = adapter.features.has('subgroups');
    const device = await adapter.requestDevice({
      requiredLimits,
      requiredFeatures: hasSubgroups ? ['subgroups'] : [],
    });
    const { subgroupMinSize = 4, subgroupMaxSize = 128 } = adapter.info;
    return new WebGpu(device, describe(adapter.info), {
      dot4: gpu.wgslLanguageFeatures.has('packed_4x8_integer_dot_product'),
      ...(hasSubgroups && { subgroups: { min: subgroupMinSize, max: subgroupMaxSize } }),
    });
  }

  /** The device and what the kernels use of it, e.g. `google swiftshader (subgroups of 4, dot4I8Packed)`. */
  get words(): string {
    const { subgroups, dot4 } = this.features;
    const words = [
      ...(subgroups ? [`subgroups of ${[...new Set([subgroups.min, subgroups.max])].join(' to ')}`] : []),
      ...(dot4 ? ['dot4I8Packed'] : []),
    ];
    return words.length > 0 ? `${this.description} (${words.join(', ')})` : this.description;
  }

  /** Why the device cannot be used any more, if so: it was lost or closed. */
  get lostReason(): string | undefined {
    return this.#lostReason;
  }

  /** Throws `STET_ERR_DEVICE_LOST` once the device is gone. */
  checkAlive(): void {
    if (this.#isClosed) throw new StetError('STET_ERR_BACKEND_CLOSED', 'the WebGPU device is closed');
    if (this.#lostReason !== undefined) throw deviceLost(this.#lostReason);
  }

  /** Throws `STET_ERR_BACKEND_FAILED` once for an error that the device reported outside of every error scope. */
  checkErrors(): void {
    const message = this.#uncaptured;
    this.#uncaptured = undefined;
    if (message !== undefined) throw new StetError('STET_ERR_BACKEND_FAILED', `the WebGPU device reports: ${message}`);
  }

  /** The same as the promise, but rejects with `STET_ERR_DEVICE_LOST` when the device goes: some promises never settle then. */
  unlessLost<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const onLost = (): void => reject(deviceLost(this.#lostReason!));
      if (this.#lostReason !== undefined) onLost();
      else this.#waiting.add(onLost);
      promise.then(resolve, reject).finally(() => this.#waiting.delete(onLost));
    });
  }

  /** The pipeline of a kernel, made once per text. Rejects with `STET_ERR_BACKEND_FAILED` where the device refuses it. */
  compile(kernel: Kernel): Promise<CompiledKernel> {
    const code = kernel.source(this.features);
    let compiled = this.#compiled.get(code);
    if (!compiled) {
      compiled = this.#compile(kernel, code);
      this.#compiled.set(code, compiled);
      compiled.catch(() => this.#compiled.delete(code));
    }
    return compiled;
  }

  async #compile(kernel: Kernel, code: string): Promise<CompiledKernel> {
    const { device } = this;
    const layout = device.createBindGroupLayout({
      label: kernel.name,
      entries: kernel.bindings.map(({ binding, type }) => ({
        binding,
        visibility: GPU_STAGE_COMPUTE,
        buffer: { type },
      })),
    });
    const module = device.createShaderModule({ label: kernel.name, code });
    const { messages } = await this.unlessLost(module.getCompilationInfo());
    const errors = messages.filter(({ type }) => type === 'error');
    if (errors.length > 0) {
      const lines = errors.map(({ lineNum, message }) => `line ${lineNum}: ${message}`);
      throw new StetError('STET_ERR_BACKEND_FAILED', `the kernel ${kernel.name} does not compile: ${lines.join('; ')}`);
    }
    try {
      const making = device.createComputePipelineAsync({
        label: kernel.name,
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: 'main' },
      });
      const pipeline = await this.unlessLost(making);
      return { kernel, layout, pipeline };
    } catch (cause) {
      throw await lossOf(this, cause, `the device refuses the kernel ${kernel.name}`);
    }
  }

  /** A group of named buffers for a compiled kernel; all of its bindings and no others. */
  bind({ kernel, layout }: CompiledKernel, buffers: Readonly<Record<string, GPUBindingResource>>): GPUBindGroup {
    const names = new Set(kernel.bindings.map(({ name }) => name));
    const unknown = Object.keys(buffers).filter((name) => !names.has(name));
    assert(unknown.length === 0, `${kernel.name} has no binding ${unknown.join(', ')}`);
    const entries = kernel.bindings.map(({ name, binding }) => {
      const resource = buffers[name];
      assert(resource !== undefined, `${kernel.name} needs a buffer for ${name}`);
      return { binding, resource };
    });
    return this.device.createBindGroup({ label: kernel.name, layout, entries });
  }

  /** Destroys the device and with it every buffer. May be called twice. */
  close(): void {
    this.#isClosed = true;
    this.#compiled.clear();
    this.device.destroy();
  }
}

/** A device that goes rejects what was asked of it, maybe before it says that it is lost; it says so within this time. */
const LOSS_MS = 500;

/** What the rejection of a promise of the device means: `STET_ERR_DEVICE_LOST`, or `STET_ERR_BACKEND_FAILED` if it is still there. */
export async function lossOf(gpu: WebGpu, cause: unknown, what: string): Promise<StetError> {
  if (isStetError(cause)) return cause;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const waited = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LOSS_MS);
  });
  await gpu.unlessLost(waited).catch(() => undefined);
  clearTimeout(timer);
  if (gpu.lostReason !== undefined) return deviceLost(gpu.lostReason);
  const message = cause instanceof Error ? cause.message : String(cause);
  return new StetError('STET_ERR_BACKEND_FAILED', `${what}: ${message}`, { cause });
}

export function deviceLost(reason: string): StetError {
  return new StetError('STET_ERR_DEVICE_LOST', `the WebGPU device was lost: ${reason}`);
}

function describe({ vendor, architecture, description }: GPUAdapterInfo): string {
  const words = [vendor, architecture].filter((word) => word !== '').join(' ');
  return description || words || 'unnamed adapter';
}
