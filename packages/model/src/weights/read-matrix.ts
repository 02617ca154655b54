import { assert, assertNever, type WeightData, type WeightSpec } from '@stet/backend';
import { checkBf16, emptyQ4, encodeBf16, encodeQ4, encodeQ8 } from '@stet/backend/numerics';
import type { FileSource } from '../files/source.js';
import { words16 } from './float-types.js';
import { readQ4 } from './read-q4.js';
import type { StoredRows } from './stored-rows.js';

/** Bytes of a tensor that are read at once, so that a large matrix is never in memory twice. */
const READ_BYTES = 16 * 2 ** 20;
/** Values that are decoded and encoded at once: few enough to stay in a core's cache between the two. */
const STEP_VALUES = 2 ** 16;

export type MatrixSpec = WeightSpec & { kind: 'matrix' };

/** The bytes of rows start .. end - 1 of a weight, as they are stored. */
export type RowReader = (start: number, end: number) => Promise<Uint8Array>;

/** Reads rows, decodes them and encodes them in the format of the weight; formats never look across rows. */
export async function readMatrix(
  source: FileSource,
  stored: StoredRows,
  spec: MatrixSpec,
  scratch: Scratch,
): Promise<WeightData> {
  const { tensor, firstRow, rowBytes, pairedHeadSize = 1 } = stored;
  const read: RowReader = (start, end) =>
    source.read(tensor.file, tensor.start + (firstRow + start) * rowBytes, tensor.start + (firstRow + end) * rowBytes);
  if (spec.format === 'bf16' && tensor.type.name === 'BF16' && stored.pairedHeadSize === undefined) {
    const bytes = await read(0, spec.rows);
    // A backend may hand the buffer on, which therefore holds nothing else before the bits.
    const bits = words16(bytes.byteOffset === 0 ? bytes : bytes.slice());
    return { kind: 'bf16', bits: checkBf16(spec.name, bits) };
  }
  if (spec.format === 'q4' && tensor.type.splitQ4) {
    return readQ4(read, stored, spec, wholeGroups(READ_BYTES / rowBytes, pairedHeadSize));
  }
  const stepRows = wholeGroups(STEP_VALUES / spec.columns, pairedHeadSize);
  const readRows = wholeGroups(READ_BYTES / rowBytes, stepRows);
  const target = emptyMatrix(spec);
  for (let start = 0; start < spec.rows; start += readRows) {
    const end = Math.min(start + readRows, spec.rows);
    const bytes = await read(start, end);
    for (let row = start; row < end; row += stepRows) {
      const rows = Math.min(stepRows, end - row);
      const values = scratch.values(rows * spec.columns);
      decodeRows(stored, bytes.subarray((row - start) * rowBytes, (row - start + rows) * rowBytes), values, rows);
      encodeRows(spec, values, target, row, rows);
    }
  }
  return target;
}

/** All values of a matrix, decoded and not encoded. */
export async function matrixValues(source: FileSource, stored: StoredRows, spec: MatrixSpec): Promise<Float32Array> {
  const { tensor, firstRow, rowBytes } = stored;
  const start = tensor.start + firstRow * rowBytes;
  const bytes = await source.read(tensor.file, start, start + spec.rows * rowBytes);
  const values = new Float32Array(spec.rows * spec.columns);
  decodeRows(stored, bytes, values, spec.rows);
  return values;
}

/** Memory for decoded values that is used again and again; what it gave is valid until it is asked again. */
export class Scratch {
  #memory = new Float32Array(0);

  values(length: number): Float32Array {
    if (this.#memory.length < length) this.#memory = new Float32Array(Math.max(length, STEP_VALUES));
    return this.#memory.subarray(0, length);
  }
}

/**
 * Where row `row` of a tensor goes whose heads have their rows in pairs: rows 2i and 2i + 1 of a head to its rows i and
 * i + headSize / 2.
 */
export function unpairedRow(row: number, headSize: number): number {
  const within = row % headSize;
  return row - within + (within >> 1) + (within % 2 === 0 ? 0 : headSize / 2);
}

function decodeRows(stored: StoredRows, bytes: Uint8Array, values: Float32Array, rows: number): void {
  const { pairedHeadSize, rowBytes, decode } = stored;
  if (pairedHeadSize === undefined) {
    decode(bytes, values);
    return;
  }
  const columns = values.length / rows;
  for (let row = 0; row < rows; row++) {
    const to = unpairedRow(row, pairedHeadSize);
    decode(bytes.subarray(row * rowBytes, (row + 1) * rowBytes), values.subarray(to * columns, (to + 1) * columns));
  }
}

function emptyMatrix(spec: MatrixSpec): WeightData {
  switch (spec.format) {
    case 'bf16':
      return { kind: 'bf16', bits: new Uint16Array(spec.rows * spec.columns) };
    case 'q8': {
      const blocks = spec.rows * Math.ceil(spec.columns / 32);
      return { kind: 'q8', quants: new Int8Array(blocks * 32), scales: new Float32Array(blocks) };
    }
    case 'q4':
      return { kind: 'q4', ...emptyQ4(spec.rows, spec.columns) };
    default:
      return assertNever(spec.format);
  }
}

/** Encodes `rows` rows into those of the target from `row` on. */
function encodeRows(spec: MatrixSpec, values: Float32Array, target: WeightData, row: number, rows: number): void {
  const name = row === 0 ? spec.name : `${spec.name} from row ${row}`;
  const part = <T extends Uint8Array | Uint16Array | Int8Array | Float32Array>(array: T): T => {
    const width = array.length / spec.rows;
    return array.subarray(row * width, (row + rows) * width) as T;
  };
  switch (target.kind) {
    case 'bf16':
      encodeBf16(name, values, part(target.bits));
      break;
    case 'q8':
      encodeQ8(name, values, rows, spec.columns, { quants: part(target.quants), scales: part(target.scales) });
      break;
    case 'q4': {
      const { nibbles, scales, centres } = target;
      const place = { nibbles: part(nibbles), scales: part(scales), centres: part(centres) };
      encodeQ4(name, values, rows, spec.columns, place);
      break;
    }
    case 'vector':
      assert(false, `${spec.name} is a matrix`);
      break;
    default:
      assertNever(target);
  }
}

/** The largest multiple of `group` up to `count`, but at least one. */
function wholeGroups(count: number, group: number): number {
  return Math.max(1, Math.floor(count / group)) * group;
}
