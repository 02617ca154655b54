import { assert, type WeightData } from '@stet/backend';
import { centreQ4, emptyQ4, type Q4Arrays } from '@stet/backend/numerics';
import { type MatrixSpec, type RowReader, unpairedRow } from './read-matrix.js';
import type { StoredRows } from './stored-rows.js';

const BLOCK = 32;

/**
 * A matrix whose tensor has integers of four bits, with these very integers: scales alone are rounded, and a centre
 * chosen for them. Rows are read `readRows` at a time, whole heads where heads have their rows in pairs.
 */
export async function readQ4(
  read: RowReader,
  stored: StoredRows,
  spec: MatrixSpec,
  readRows: number,
): Promise<WeightData> {
  const { rowBytes, pairedHeadSize, tensor } = stored;
  const { splitQ4 } = tensor.type;
  assert(splitQ4, `${tensor.type.name} has integers of four bits`);
  const blockCount = spec.columns / BLOCK;
  const target = emptyQ4(spec.rows, spec.columns);
  const scratchBlocks = Math.min(readRows, spec.rows) * blockCount;
  const exact = { scales: new Float32Array(scratchBlocks), minima: new Float32Array(scratchBlocks) };
  for (let start = 0; start < spec.rows; start += readRows) {
    const end = Math.min(start + readRows, spec.rows);
    const bytes = await read(start, end);
    const blocks = (row: number, count: number): [number, number] => [row * blockCount, (row + count) * blockCount];
    const part = partOf(target, ...blocks(start, end - start));
    /** Rows from `from` on of what was read, to those from `to` on. */
    const split = (from: number, to: number, count: number): void => {
      const [first, last] = blocks(to, count);
      splitQ4(
        bytes.subarray(from * rowBytes, (from + count) * rowBytes),
        part.nibbles.subarray(first * 16, last * 16),
        exact.scales.subarray(first, last),
        exact.minima.subarray(first, last),
      );
    };
    if (pairedHeadSize === undefined) split(0, 0, end - start);
    else for (let row = 0; row < end - start; row++) split(row, unpairedRow(row, pairedHeadSize), 1);
    const count = part.scales.length;
    const lines = { scales: exact.scales.subarray(0, count), minima: exact.minima.subarray(0, count) };
    centreQ4(`${spec.name}${start === 0 ? '' : ` from row ${start}`}`, lines, part);
  }
  return { kind: 'q4', ...target };
}

/** Blocks first .. last - 1. */
function partOf({ nibbles, scales, centres }: Q4Arrays, first: number, last: number): Q4Arrays {
  return {
    nibbles: nibbles.subarray(first * 16, last * 16),
    scales: scales.subarray(first, last),
    centres: centres.subarray(first, last),
  };
}
