import {
  assertNever,
  isStetError,
  StetError,
  type WeightData,
  type WeightSource,
  type WeightSpec,
} from '@stet/backend';
import { checkBf16, encodeWeight } from '@stet/backend/numerics';
import type { FileSource } from '../files/source.js';
import { bitsPerElement } from '../safetensors/dtypes.js';
import type { TensorInfo } from '../safetensors/header.js';
import { bf16ToFloat, halfToFloat } from './float-conversion.js';

/** Bytes of a tensor that are converted at once, so that a large matrix is never in memory twice. */
const CHUNK_BYTES = 16 * 2 ** 20;

/**
 * Weights from the tensors of a checkpoint. F32 and F16 are rounded to bf16 as the numerics say; BF16 goes to the
 * `bf16` format as it is. Reads reject with `STET_ERR_MISSING_TENSOR`, `STET_ERR_BAD_TENSOR` or `STET_ERR_BAD_WEIGHTS`
 * and name tensor and file.
 */
export function tensorWeights(source: FileSource, tensors: ReadonlyMap<string, TensorInfo>): WeightSource {
  return {
    read: async (spec) => {
      const tensor = checkTensor(spec, tensors);
      try {
        return await readWeight(source, tensor, spec);
      } catch (cause) {
        if (!isStetError(cause) || cause.code !== 'STET_ERR_BAD_WEIGHTS') throw cause;
        throw new StetError(cause.code, `${tensor.file}: ${cause.message}`, { cause });
      }
    },
  };
}

/** The tensor of a weight, with the shape and a type that the weight asks for. */
export function checkTensor(spec: WeightSpec, tensors: ReadonlyMap<string, TensorInfo>): TensorInfo {
  const tensor = tensors.get(spec.name);
  if (!tensor) throw new StetError('STET_ERR_MISSING_TENSOR', `the checkpoint has no tensor ${spec.name}`);
  const shape = spec.kind === 'matrix' ? [spec.rows, spec.columns] : [spec.size];
  if (shape.length !== tensor.shape.length || !shape.every((size, i) => size === tensor.shape[i])) {
    bad(tensor, `has the shape [${tensor.shape.join(', ')}], expected [${shape.join(', ')}]`);
  }
  if (tensor.dtype !== 'F32' && tensor.dtype !== 'F16' && tensor.dtype !== 'BF16') {
    bad(tensor, `has the type ${tensor.dtype}; supported are F32, F16 and BF16`);
  }
  return tensor;
}

async function readWeight(source: FileSource, tensor: TensorInfo, spec: WeightSpec): Promise<WeightData> {
  if (spec.kind === 'vector') {
    return encodeWeight(spec, toFloat(tensor, await source.read(tensor.file, tensor.start, tensor.end)));
  }
  if (spec.format === 'bf16' && tensor.dtype === 'BF16') {
    const bits = words16(await source.read(tensor.file, tensor.start, tensor.end));
    return { kind: 'bf16', bits: checkBf16(spec.name, bits) };
  }
  return readRows(source, tensor, spec);
}

/** A matrix that changes its form, some rows at a time; formats never look across rows. */
async function readRows(
  source: FileSource,
  tensor: TensorInfo,
  spec: WeightSpec & { kind: 'matrix' },
): Promise<WeightData> {
  const target = emptyMatrix(spec);
  const rowBytes = (spec.columns * bitsPerElement(tensor.dtype)) / 8;
  const chunkRows = Math.max(1, Math.floor(CHUNK_BYTES / rowBytes));
  for (let row = 0; row < spec.rows; row += chunkRows) {
    const end = Math.min(row + chunkRows, spec.rows);
    const bytes = await source.read(tensor.file, tensor.start + row * rowBytes, tensor.start + end * rowBytes);
    const name = row === 0 ? spec.name : `${spec.name} from row ${row}`;
    copyRows(encodeWeight({ ...spec, name, rows: end - row }, toFloat(tensor, bytes)), target, row, spec.rows);
  }
  return target;
}

function emptyMatrix(spec: WeightSpec & { kind: 'matrix' }): WeightData {
  switch (spec.format) {
    case 'bf16':
      return { kind: 'bf16', bits: new Uint16Array(spec.rows * spec.columns) };
    case 'q8': {
      const blocks = spec.rows * Math.ceil(spec.columns / 32);
      return { kind: 'q8', quants: new Int8Array(blocks * 32), scales: new Float32Array(blocks) };
    }
    default:
      return assertNever(spec.format);
  }
}

/** Copies encoded rows to row `row` of the target, which has `rows` rows. */
function copyRows(from: WeightData, target: WeightData, row: number, rows: number): void {
  const at = (length: number): number => (length / rows) * row;
  if (from.kind === 'bf16' && target.kind === 'bf16') target.bits.set(from.bits, at(target.bits.length));
  else if (from.kind === 'q8' && target.kind === 'q8') {
    target.quants.set(from.quants, at(target.quants.length));
    target.scales.set(from.scales, at(target.scales.length));
  } else throw new Error(`assertion failed: ${from.kind} rows for a ${target.kind} matrix`);
}

function toFloat(tensor: TensorInfo, bytes: Uint8Array): Float32Array {
  switch (tensor.dtype) {
    case 'F32':
      return new Float32Array(aligned(bytes, 4), 0, bytes.length / 4);
    case 'F16':
      return halfToFloat(words16(bytes));
    case 'BF16':
      return bf16ToFloat(words16(bytes));
    default:
      return bad(tensor, `has the type ${tensor.dtype}`);
  }
}

function words16(bytes: Uint8Array): Uint16Array {
  return new Uint16Array(aligned(bytes, 2), 0, bytes.length / 2);
}

/** A buffer that begins with these bytes; copied only where a source handed out part of a larger one. */
function aligned(bytes: Uint8Array, elementBytes: number): ArrayBuffer {
  const { buffer, byteOffset } = bytes;
  if (byteOffset === 0 && buffer instanceof ArrayBuffer && bytes.length % elementBytes === 0) return buffer;
  return bytes.slice().buffer as ArrayBuffer;
}

function bad(tensor: TensorInfo, message: string): never {
  throw new StetError('STET_ERR_BAD_TENSOR', `${tensor.file}: ${tensor.name} ${message}`);
}
