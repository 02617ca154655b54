import { GPU_MAP_READ, GPU_USAGE, GpuMemory } from '../device/memory.js';
import type { WebGpu } from '../device/web-gpu.js';
import type { KernelCall } from '../program/kernel-call.js';
import { Program } from '../program/program.js';

/** A batch of rows that an operation runs on, without a model. */
export interface OpBatch {
  readonly rowCount: number;
  readonly tokens?: Int32Array;
  readonly positions?: Int32Array;
  /** One table, which all rows share unless `tableStarts` says where in it the table of each row begins. */
  readonly table?: Int32Array;
  readonly tableStarts?: Int32Array;
  /** Rows whose result is wanted. */
  readonly outputs?: Int32Array;
}

type Values = Float32Array | Int32Array | Uint32Array | Int8Array | Uint8Array | Uint16Array;

/** Buffers for one operation, freed together. */
export class OpScratch {
  readonly gpu: WebGpu;
  readonly memory: GpuMemory;

  constructor(gpu: WebGpu) {
    this.gpu = gpu;
    this.memory = new GpuMemory(gpu.device);
  }

  upload(values: Values, usage: number = GPU_USAGE.STORAGE): GPUBuffer {
    const buffer = this.memory.allocate('input', values.byteLength, usage | GPU_USAGE.COPY_DST | GPU_USAGE.COPY_SRC);
    const bytes = new Uint8Array(buffer.size);
    bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    this.gpu.device.queue.writeBuffer(buffer, 0, bytes);
    return buffer;
  }

  empty(byteCount: number): GPUBuffer {
    return this.memory.allocate('output', byteCount, GPU_USAGE.STORAGE | GPU_USAGE.COPY_SRC | GPU_USAGE.COPY_DST);
  }

  /** Runs the calls in one submission and reads `count` f32 of a buffer. */
  async run(calls: readonly KernelCall[], batch: OpBatch, output: GPUBuffer, count: number): Promise<Float32Array> {
    const { device } = this.gpu;
    const { rowCount, tokens, positions, table = Int32Array.of(0), tableStarts, outputs = Int32Array.of(0) } = batch;
    const rows = new Int32Array(rowCount * 4);
    for (let row = 0; row < rowCount; row++) {
      rows.set([tokens?.[row] ?? 0, positions?.[row] ?? 0, tableStarts?.[row] ?? 0, 0], row * 4);
    }
    const positionCount = (positions ?? Int32Array.of(0)).reduce((most, p) => Math.max(most, p), 0) + 1;
    const sequenceCount = new Set(tableStarts ?? [0]).size;
    const size = { rowCount, outputCount: batch.outputs?.length ?? 0, positionCount, sequenceCount };
    const program = new Program(this.gpu, this.memory, calls, {
      batch: this.upload(Uint32Array.of(size.rowCount, size.outputCount, 0, 0), GPU_USAGE.UNIFORM),
      rows: this.upload(rows),
      tables: this.upload(table),
      outputs: this.upload(outputs),
    });
    await program.prepare(size);
    const byteCount = Math.max(4, count * 4);
    const readback = this.memory.allocate('readback', byteCount, GPU_USAGE.MAP_READ | GPU_USAGE.COPY_DST);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    program.encode(pass, size);
    pass.end();
    encoder.copyBufferToBuffer(output, 0, readback, 0, byteCount);
    device.queue.submit([encoder.finish()]);
    await this.gpu.unlessLost(readback.mapAsync(GPU_MAP_READ));
    return new Float32Array(readback.getMappedRange().slice(0)).subarray(0, count);
  }

  free(): void {
    this.memory.freeAll();
  }
}
