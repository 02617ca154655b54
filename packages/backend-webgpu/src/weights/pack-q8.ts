import { type PackedMatrix, wordsOf } from './packed-weight.js';
import { transposedQuads, transposedWords } from './transpose.js';

/** int8 quants (rows × blockCount·32) in halves of blocks, and f32 scales (rows × blockCount); see `DeviceWeight`. */
export function packQ8(quants: Int8Array, scales: Float32Array, columns: number): PackedMatrix {
  const blockCount = Math.ceil(columns / 32);
  const quantWords = wordsOf(quants);
  const scaleWords = wordsOf(scales);
  return {
    rowBytes: blockCount * 32,
    part: (firstRow, rowCount) => ({
      data: transposedQuads(quantWords, blockCount * 2, firstRow, rowCount),
      scales: transposedWords(scaleWords, blockCount, firstRow, rowCount),
    }),
  };
}
