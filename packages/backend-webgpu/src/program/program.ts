import { assert } from '@stet/backend';
import { paramBytes } from '../device/kernel.js';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { CompiledKernel, WebGpu } from '../device/web-gpu.js';
import type { BatchSize, KernelCall, Workgroups } from './kernel-call.js';

/** What a batch brings, on the device. */
export interface BatchBuffers {
  /** `struct Batch` of prelude.wgsl. */
  readonly batch: GPUBuffer;
  /** (rowCount) vec4<i32>: token, position, where the sequence's block table begins in `tables`, 0. */
  readonly rows: GPUBuffer;
  /** Block ids of all tables. */
  readonly tables: GPUBuffer;
  /** (outputCount) i32: rows whose result is wanted. */
  readonly outputs: GPUBuffer;
}

interface Dispatch {
  readonly call: KernelCall;
  readonly params: GPUBindingResource | undefined;
  /** Once a batch has needed it. */
  compiled?: CompiledKernel;
  bindGroup?: GPUBindGroup;
}

/**
 * Kernel calls that run one after the other. Parameters lie in one uniform buffer, made at once. A call has several variants
 * for batches of several sizes, and a pipeline may take a device seconds: each is made when a batch first needs it, and kept.
 */
export class Program {
  readonly #gpu: WebGpu;
  readonly #dispatches: readonly Dispatch[];
  #batchBuffers: BatchBuffers;

  constructor(gpu: WebGpu, memory: GpuMemory, calls: readonly KernelCall[], batchBuffers: BatchBuffers) {
    const params = uploadParams(gpu, memory, calls);
    this.#gpu = gpu;
    this.#dispatches = calls.map((call, i) => ({ call, params: params[i] }));
    this.#batchBuffers = batchBuffers;
  }

  /** Binds other batch buffers from the next `encode` on. */
  rebind(batchBuffers: BatchBuffers): void {
    this.#batchBuffers = batchBuffers;
    for (const dispatch of this.#dispatches) delete dispatch.bindGroup;
  }

  /** Whether all pipelines for batches of this size are there. */
  isReady(size: BatchSize): boolean {
    return this.#dispatches.every(({ call, compiled }) => compiled || !runs(call.workgroups(size)));
  }

  /** Makes the pipelines for batches of this size. Rejects with `STET_ERR_BACKEND_FAILED` where a kernel does not compile. */
  async prepare(size: BatchSize): Promise<void> {
    const missing = this.#dispatches.filter(({ call, compiled }) => !compiled && runs(call.workgroups(size)));
    await Promise.all(
      missing.map(async (dispatch) => {
        dispatch.compiled = await this.#gpu.compile(dispatch.call.kernel);
      }),
    );
  }

  /** Records the calls for a batch of a size that is ready. */
  encode(pass: GPUComputePassEncoder, size: BatchSize): void {
    for (const dispatch of this.#dispatches) {
      const workgroups = dispatch.call.workgroups(size);
      if (!runs(workgroups)) continue;
      const { compiled } = dispatch;
      assert(compiled, `${dispatch.call.kernel.name} was not prepared`);
      dispatch.bindGroup ??= bindCall(this.#gpu, dispatch, compiled, this.#batchBuffers);
      pass.setPipeline(compiled.pipeline);
      pass.setBindGroup(0, dispatch.bindGroup);
      pass.dispatchWorkgroups(...workgroups);
    }
  }
}

function runs([x, y, z]: Workgroups): boolean {
  return x > 0 && y > 0 && z > 0;
}

/** The slice of the uniform buffer that each call has; undefined for a kernel without parameters. */
function uploadParams(
  gpu: WebGpu,
  memory: GpuMemory,
  calls: readonly KernelCall[],
): (GPUBindingResource | undefined)[] {
  const { device } = gpu;
  const stride = device.limits.minUniformBufferOffsetAlignment;
  let end = 0;
  const slices = calls.map(({ kernel, params = {} }) => {
    const bytes = paramBytes(kernel, params);
    const offset = end;
    if (kernel.params.length > 0) end += Math.ceil(bytes.byteLength / stride) * stride;
    return { kernel, bytes, offset };
  });
  const all = new Uint8Array(end);
  for (const { kernel, bytes, offset } of slices) if (kernel.params.length > 0) all.set(new Uint8Array(bytes), offset);
  const buffer = memory.allocate('parameters', end, GPU_USAGE.UNIFORM | GPU_USAGE.COPY_DST);
  device.queue.writeBuffer(buffer, 0, all);
  return slices.map(({ kernel, bytes, offset }) =>
    kernel.params.length > 0 ? { buffer, offset, size: bytes.byteLength } : undefined,
  );
}

function bindCall(
  gpu: WebGpu,
  { call, params }: Dispatch,
  compiled: CompiledKernel,
  batchBuffers: BatchBuffers,
): GPUBindGroup {
  const resources: Record<string, GPUBindingResource> = {};
  for (const { name } of compiled.kernel.bindings) {
    if (name === 'params' && params) resources[name] = params;
    else if (name in batchBuffers) resources[name] = { buffer: batchBuffers[name as keyof BatchBuffers] };
  }
  for (const [name, buffer] of Object.entries(call.buffers)) resources[name] = { buffer };
  return gpu.bind(compiled, resources);
}
