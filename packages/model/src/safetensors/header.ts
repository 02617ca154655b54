import { StetError } from '@stet/backend';
import { throwIfAborted } from '../files/abort.js';
import { causeMessage, quote } from '../files/quote.js';
import type { FileSource } from '../files/source.js';
import type { StoredTensor } from '../weights/stored-tensor.js';
import { bitsPerElement, isDtype, tensorType } from './dtypes.js';
import { duplicateKey } from './duplicate-key.js';

/** Largest header that is read, the limit of the format's own implementation. */
export const MAX_HEADER_BYTES = 100_000_000;
/** Most dimensions of a tensor. */
const MAX_RANK = 16;
/** A u64 length stands before the header. */
const LENGTH_BYTES = 8;

/**
 * Reads and checks the header of one safetensors file: 8 bytes, then the header, nothing of the data. Everything in it
 * is checked against the size of the file, so that what it promises can be read. Rejects with `STET_ERR_BAD_SAFETENSORS`.
 */
export async function readHeader(source: FileSource, file: string, signal?: AbortSignal): Promise<StoredTensor[]> {
  throwIfAborted(signal);
  const size = await source.size(file);
  if (size < LENGTH_BYTES) bad(file, `has ${size} bytes, too few for a header`);
  const length = headerLength(file, await source.read(file, 0, LENGTH_BYTES), size);
  throwIfAborted(signal);
  const header = parseHeader(file, await source.read(file, LENGTH_BYTES, LENGTH_BYTES + length));
  const dataStart = LENGTH_BYTES + length;
  const tensors: StoredTensor[] = [];
  for (const [name, value] of header) {
    if (name === '__metadata__') checkMetadata(file, value);
    else tensors.push(tensorInfo(file, name, value, dataStart, size));
  }
  checkCoverage(file, tensors, dataStart, size);
  return tensors;
}

function headerLength(file: string, bytes: Uint8Array, size: number): number {
  const length = new DataView(bytes.buffer, bytes.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  if (length > MAX_HEADER_BYTES) bad(file, `has a header of ${length} bytes, at most ${MAX_HEADER_BYTES} are allowed`);
  if (Number(length) > size - LENGTH_BYTES)
    bad(file, `ends inside its header: ${length} bytes of header, ${size} of file`);
  return Number(length);
}

function parseHeader(file: string, bytes: Uint8Array): [string, unknown][] {
  if (bytes[0] !== 0x7b) bad(file, 'has a header that does not begin with {');
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (cause) {
    throw new StetError('STET_ERR_BAD_SAFETENSORS', `${file} has a header that is not JSON: ${causeMessage(cause)}`, {
      cause,
    });
  }
  const twice = duplicateKey(text);
  if (twice !== undefined) bad(file, `has the key ${quote(twice)} twice in its header`);
  if (!isRecord(value)) bad(file, 'has a header that is not an object');
  return Object.entries(value);
}

function checkMetadata(file: string, value: unknown): void {
  if (!isRecord(value) || !Object.values(value).every((entry) => typeof entry === 'string')) {
    bad(file, 'has __metadata__ that is not an object of strings');
  }
}

function tensorInfo(file: string, name: string, value: unknown, dataStart: number, size: number): StoredTensor {
  const at = `tensor ${quote(name)}`;
  if (!isRecord(value)) bad(file, `${at} is not an object`);
  const { dtype, shape, data_offsets: offsets } = value;
  if (!isDtype(dtype)) bad(file, `${at} has the unknown dtype ${quote(dtype)}`);
  if (!Array.isArray(shape) || shape.length > MAX_RANK || !shape.every(isCount)) bad(file, `${at} has a bad shape`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount))
    bad(file, `${at} has bad data_offsets`);
  const [start, end] = offsets as [number, number];
  if (end < start || end > size - dataStart) {
    bad(file, `${at} has data_offsets ${start}..${end}, the file has ${size - dataStart} bytes of data`);
  }
  let elements = 1;
  for (const dimension of shape as number[]) {
    elements *= dimension;
    if (elements > Number.MAX_SAFE_INTEGER / 64) bad(file, `${at} has too many elements`);
  }
  const bits = elements * bitsPerElement(dtype);
  if (bits !== (end - start) * 8) {
    bad(file, `${at}: ${end - start} bytes are not what ${dtype} [${shape.join(', ')}] takes`);
  }
  return {
    name,
    file,
    type: tensorType(dtype),
    shape: shape as number[],
    start: dataStart + start,
    end: dataStart + end,
  };
}

/** The format asks that tensors cover the data without overlap and without holes. */
function checkCoverage(file: string, tensors: readonly StoredTensor[], dataStart: number, size: number): void {
  const sorted = [...tensors].sort((a, b) => a.start - b.start || a.end - b.end);
  let covered = dataStart;
  for (const tensor of sorted) {
    if (tensor.start < covered) bad(file, `tensor ${quote(tensor.name)} overlaps another`);
    if (tensor.start > covered)
      bad(file, `has ${tensor.start - covered} bytes that no tensor uses before ${quote(tensor.name)}`);
    covered = tensor.end;
  }
  if (covered !== size) bad(file, `has ${size - covered} bytes after its last tensor`);
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function bad(file: string, message: string): never {
  throw new StetError('STET_ERR_BAD_SAFETENSORS', `${file} ${message}`);
}
