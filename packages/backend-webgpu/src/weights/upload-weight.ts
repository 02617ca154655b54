import { assert, assertNever, type WeightData, type WeightSpec } from '@stet/backend';
import { GPU_USAGE, type GpuMemory } from '../device/memory.js';
import type { WebGpu } from '../device/web-gpu.js';
import type { DeviceMatrix, DeviceWeight, MatrixPart } from './device-weight.js';
import { packBf16 } from './pack-bf16.js';
import { packQ4 } from './pack-q4.js';
import { packQ8 } from './pack-q8.js';
import type { PackedArray, PackedMatrix } from './packed-weight.js';

export interface UploadOptions {
  /** Parts of a matrix are at most so large, and at least one row; by default as large as a storage binding may be. */
  readonly maxPartBytes?: number;
}

/** Words that are packed and written at once. */
const SLICE_WORDS = 2 ** 20;
/** Rows of a part are a multiple of it where parts have so many. */
const ROW_STEP = 64;

/**
 * Allocates a weight in `memory` and writes it in slices of a few MiB. `data` belongs to `spec` (`checkWeightData`); it is not kept.
 * Throws `STET_ERR_UNSUPPORTED` where one row alone is larger than a binding of the device.
 */
export function uploadWeight(
  gpu: WebGpu,
  memory: GpuMemory,
  spec: WeightSpec,
  data: WeightData,
  options: UploadOptions = {},
): DeviceWeight {
  switch (spec.kind) {
    case 'vector': {
      assert(data.kind === 'vector', `${spec.name} is a vector, its data ${data.kind}`);
      const buffer = allocate(memory, spec.name, data.values.byteLength);
      gpu.device.queue.writeBuffer(buffer, 0, data.values.buffer, data.values.byteOffset, data.values.byteLength);
      return { kind: 'vector', buffer };
    }
    case 'matrix':
      return uploadMatrix(gpu, memory, spec, packMatrix(spec, data), options);
    default:
      return assertNever(spec);
  }
}

type MatrixSpec = WeightSpec & { readonly kind: 'matrix' };

function packMatrix(spec: MatrixSpec, data: WeightData): PackedMatrix {
  assert(data.kind === spec.format, `${spec.name} is in ${spec.format}, its data in ${data.kind}`);
  switch (data.kind) {
    case 'bf16':
      return packBf16(data.bits, spec.columns);
    case 'q8':
      return packQ8(data.quants, data.scales, spec.columns);
    case 'q4':
      return packQ4(data, spec.columns);
    default:
      return assertNever(data);
  }
}

function uploadMatrix(
  gpu: WebGpu,
  memory: GpuMemory,
  { name, format, rows, columns }: MatrixSpec,
  matrix: PackedMatrix,
  options: UploadOptions,
): DeviceMatrix {
  const { maxBufferSize, maxStorageBufferBindingSize } = gpu.device.limits;
  const { maxPartBytes = Math.min(maxBufferSize, maxStorageBufferBindingSize) } = options;
  const staging = new Int32Array(Math.min(SLICE_WORDS, (rows * matrix.rowBytes) / 4));
  const parts = rowRanges(rows, Math.floor(maxPartBytes / matrix.rowBytes)).map(([firstRow, rowCount]): MatrixPart => {
    const { data, scales } = matrix.part(firstRow, rowCount);
    const upload = (array: PackedArray): GPUBuffer => uploadArray(gpu, memory, name, array, staging);
    return { firstRow, rowCount, data: upload(data), ...(scales && { scales: upload(scales) }) };
  });
  return { kind: 'matrix', format, rows, columns, parts };
}

/** (first, count) of parts of at most `most` rows, and at least one, as equal as steps allow. */
export function rowRanges(rows: number, most: number): [number, number][] {
  const limit = Math.max(1, most);
  const equal = Math.ceil(rows / Math.ceil(rows / limit));
  const stepped = Math.ceil(equal / ROW_STEP) * ROW_STEP;
  const size = stepped <= limit ? stepped : equal;
  const count = Math.ceil(rows / size);
  return Array.from({ length: count }, (_, i) => [i * size, Math.min(size, rows - i * size)]);
}

/** Writes the array unit range by unit range through `staging`, or through a longer array where one unit of all rows needs it. */
function uploadArray(
  gpu: WebGpu,
  memory: GpuMemory,
  name: string,
  array: PackedArray,
  staging: Int32Array<ArrayBuffer>,
): GPUBuffer {
  const { unitCount, rowCount, wordsPerUnit } = array;
  const words = rowCount * wordsPerUnit;
  const buffer = allocate(memory, name, unitCount * words * 4);
  const target = staging.length >= words ? staging : new Int32Array(words);
  const step = Math.floor(target.length / words);
  for (let first = 0; first < unitCount; first += step) {
    const count = Math.min(step, unitCount - first);
    array.pack(first, count, target);
    gpu.device.queue.writeBuffer(buffer, first * words * 4, target, 0, count * words);
  }
  return buffer;
}

function allocate(memory: GpuMemory, name: string, byteCount: number): GPUBuffer {
  return memory.allocate(name, byteCount, GPU_USAGE.STORAGE | GPU_USAGE.COPY_DST);
}
