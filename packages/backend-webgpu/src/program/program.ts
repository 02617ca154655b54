import { paramBytes } from '../device/kernel.js';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { CompiledKernel, WebGpu } from '../device/web-gpu.js';
import type { BatchSize, KernelCall } from './kernel-call.js';

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
  readonly compiled: CompiledKernel;
  readonly params: GPUBindingResource | undefined;
  bindGroup: GPUBindGroup;
}

/** Kernel calls that run one after the other, with their pipelines, parameters and bind groups made once. */
export class Program {
  readonly #gpu: WebGpu;
  readonly #dispatches: Dispatch[];

  private constructor(gpu: WebGpu, dispatches: Dispatch[]) {
    this.#gpu = gpu;
    this.#dispatches = dispatches;
  }

  /** Parameters of all calls lie in one uniform buffer of `memory`. Rejects where a kernel does not compile. */
  static async compile(
    gpu: WebGpu,
    memory: GpuMemory,
    calls: readonly KernelCall[],
    batchBuffers: BatchBuffers,
  ): Promise<Program> {
    const compiled = await Promise.all(calls.map(({ kernel }) => gpu.compile(kernel)));
    const params = uploadParams(gpu, memory, calls);
    const dispatches = calls.map((call, i): Dispatch => {
      const parts = { call, compiled: compiled[i]!, params: params[i] };
      return { ...parts, bindGroup: bindCall(gpu, parts, batchBuffers) };
    });
    return new Program(gpu, dispatches);
  }

  /** Binds other batch buffers from the next `encode` on. */
  rebind(batchBuffers: BatchBuffers): void {
    for (const dispatch of this.#dispatches) dispatch.bindGroup = bindCall(this.#gpu, dispatch, batchBuffers);
  }

  encode(pass: GPUComputePassEncoder, size: BatchSize): void {
    for (const { call, compiled, bindGroup } of this.#dispatches) {
      const [x, y, z] = call.workgroups(size);
      if (x === 0 || y === 0 || z === 0) continue;
      pass.setPipeline(compiled.pipeline);
      pass.setBindGroup(0, bindGroup);
      pass.dispatchWorkgroups(x, y, z);
    }
  }
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

type Unbound = Omit<Dispatch, 'bindGroup'>;

function bindCall(gpu: WebGpu, { call, compiled, params }: Unbound, batchBuffers: BatchBuffers): GPUBindGroup {
  const resources: Record<string, GPUBindingResource> = {};
  for (const { name } of compiled.kernel.bindings) {
    if (name === 'params' && params) resources[name] = params;
    else if (name in batchBuffers) resources[name] = { buffer: batchBuffers[name as keyof BatchBuffers] };
  }
  for (const [name, buffer] of Object.entries(call.buffers)) resources[name] = { buffer };
  return gpu.bind(compiled, resources);
}
