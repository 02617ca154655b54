import { type PackedArray, type PackedMatrix, wordsOf } from './packed-weight.js';
import { transposedQuads } from './transpose.js';

/** bf16 bits (rows × columns) in octets of columns; see `DeviceWeight`. */
export function packBf16(bits: Uint16Array, columns: number): PackedMatrix {
  const octetCount = Math.ceil(columns / 8);
  const words = columns % 8 === 0 ? wordsOf(bits) : undefined;
  return {
    rowBytes: octetCount * 16,
    part: (firstRow, rowCount) => ({
      data: words
        ? transposedQuads(words, octetCount, firstRow, rowCount)
        : paddedOctets(bits, columns, firstRow, rowCount),
    }),
  };
}

/** Rows that do not end with an octet: what is past their end is 0. */
function paddedOctets(bits: Uint16Array, columns: number, firstRow: number, rowCount: number): PackedArray {
  return {
    unitCount: Math.ceil(columns / 8),
    rowCount,
    wordsPerUnit: 4,
    pack(first, count, target) {
      for (let row = 0; row < rowCount; row++) {
        const start = (firstRow + row) * columns;
        const end = start + columns;
        for (let unit = 0; unit < count; unit++) {
          const from = start + (first + unit) * 8;
          const to = (unit * rowCount + row) * 4;
          for (let i = 0; i < 4; i++) {
            const at = from + i * 2;
            target[to + i] = (at < end ? bits[at]! : 0) | (at + 1 < end ? bits[at + 1]! << 16 : 0);
          }
        }
      }
    },
  };
}
