import type { PackedArray } from './packed-weight.js';

/** Units that are read of a row at once: a few cache lines, and as many places that are written by turns. */
const BLOCK_UNITS = 16;

/** Rows of whole 16-byte units, (rows × unitCount), turned to (unitCount × rows). */
export function transposedQuads(
  source: Int32Array,
  unitCount: number,
  firstRow: number,
  rowCount: number,
): PackedArray {
  return {
    unitCount,
    rowCount,
    wordsPerUnit: 4,
    pack(first, count, target) {
      for (let block = 0; block < count; block += BLOCK_UNITS) {
        const end = Math.min(block + BLOCK_UNITS, count);
        for (let row = 0; row < rowCount; row++) {
          let from = ((firstRow + row) * unitCount + first + block) * 4;
          let to = (block * rowCount + row) * 4;
          for (let unit = block; unit < end; unit++) {
            target[to] = source[from]!;
            target[to + 1] = source[from + 1]!;
            target[to + 2] = source[from + 2]!;
            target[to + 3] = source[from + 3]!;
            from += 4;
            to += rowCount * 4;
          }
        }
      }
    },
  };
}

/** Rows of words, (rows × unitCount), turned to (unitCount × rows). */
export function transposedWords(
  source: Int32Array,
  unitCount: number,
  firstRow: number,
  rowCount: number,
): PackedArray {
  return {
    unitCount,
    rowCount,
    wordsPerUnit: 1,
    pack(first, count, target) {
      for (let row = 0; row < rowCount; row++) {
        const from = (firstRow + row) * unitCount + first;
        for (let unit = 0; unit < count; unit++) target[unit * rowCount + row] = source[from + unit]!;
      }
    },
  };
}
