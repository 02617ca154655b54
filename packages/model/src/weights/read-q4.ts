import { assert, type WeightData } from '@stet/backend';
import { emptyQ4, encodeBf16 } from '@stet/backend/numerics';
import { type MatrixSpec, type RowReader, unpairedRow } from './read-matrix.js';
import type { StoredRows } from './stored-rows.js';

const BLOCK = 32;

/**
 * A matrix whose tensor has integers of four bits, with these very integers: scales and minima alone are rounded, to
 * bf16. Rows are read `readRows` at a time, whole heads where heads have their rows in pairs.
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
  const { nibbles, scales, minima } = emptyQ4(spec.rows, spec.columns);
  const scratchBlocks = Math.min(readRows, spec.rows) * blockCount;
  const exact = { scales: new Float32Array(scratchBlocks), minima: new Float32Array(scratchBlocks) };
  for (let start = 0; start < spec.rows; start += readRows) {
    const end = Math.min(start + readRows, spec.rows);
    const bytes = await read(start, end);
    const blocks = (row: number, count: number): [number, number] => [row * blockCount, (row + count) * blockCount];
    const part = nibbles.subarray(start * blockCount * 16, end * blockCount * 16);
    /** Rows from `from` on of what was read, to those from `to` on. */
    const split = (from: number, to: number, count: number): void => {
      const [first, last] = blocks(to, count);
      splitQ4(
        bytes.subarray(from * rowBytes, (from + count) * rowBytes),
        part.subarray(first * 16, last * 16),
        exact.scales.subarray(first, last),
        exact.minima.subarray(first, last),
      );
    };
    if (pairedHeadSize === undefined) split(0, 0, end - start);
    else for (let row = 0; row < end - start; row++) split(row, unpairedRow(row, pairedHeadSize), 1);
    const [first, last] = blocks(start, end - start);
    const name = `${spec.name}${start === 0 ? '' : ` from row ${start}`}`;
    encodeBf16(`${name}, scales of blocks`, exact.scales.subarray(0, last - first), scales.subarray(first, last));
    encodeBf16(`${name}, minima of blocks`, exact.minima.subarray(0, last - first), minima.subarray(first, last));
  }
  return { kind: 'q4', nibbles, scales, minima };
}
