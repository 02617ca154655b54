import type { WeightData } from '@stet/backend';
import { type PackedArray, type PackedMatrix, wordsOf } from './packed-weight.js';
import { transposedQuads } from './transpose.js';

type Q4Data = WeightData & { readonly kind: 'q4' };

/** Nibbles (rows × blockCount × 16 bytes) in blocks, and scales and centres (rows × blockCount) paired; see `DeviceWeight`. */
export function packQ4(data: Q4Data, columns: number): PackedMatrix {
  const blockCount = Math.ceil(columns / 32);
  const nibbles = wordsOf(data.nibbles);
  return {
    rowBytes: blockCount * 16,
    part: (firstRow, rowCount) => ({
      data: transposedQuads(nibbles, blockCount, firstRow, rowCount),
      scales: scalePairs(data, blockCount, firstRow, rowCount),
    }),
  };
}

function scalePairs({ scales, centres }: Q4Data, blockCount: number, firstRow: number, rowCount: number): PackedArray {
  return {
    unitCount: blockCount,
    rowCount,
    wordsPerUnit: 1,
    pack(first, count, target) {
      for (let row = 0; row < rowCount; row++) {
        const from = (firstRow + row) * blockCount + first;
        for (let unit = 0; unit < count; unit++) {
          target[unit * rowCount + row] = scales[from + unit]! | (centres[from + unit]! << 16);
        }
      }
    },
  };
}
