import { assertNever, type WeightData } from '@stet/backend';
import { BLOCK, fromBits } from '@stet/backend/numerics';

/** output[offset .. offset + columns - 1] = row `token` of the table: exact in `bf16` and `q8`; in `q4` the sum of s·(q - 8), which is exact, and c is rounded once. */
export function embed(
  table: Exclude<WeightData, { kind: 'vector' }>,
  columns: number,
  token: number,
  output: Float32Array,
  offset: number,
): void {
  switch (table.kind) {
    case 'bf16':
      for (let i = 0; i < columns; i++) output[offset + i] = fromBits(table.bits[token * columns + i] << 16);
      return;
    case 'q8': {
      const blockCount = Math.ceil(columns / BLOCK);
      for (let i = 0; i < columns; i++) {
        const scale = table.scales[token * blockCount + Math.floor(i / BLOCK)];
        output[offset + i] = table.quants[token * blockCount * BLOCK + i] * scale;
      }
      return;
    }
    case 'q4': {
      const blockCount = Math.ceil(columns / BLOCK);
      for (let i = 0; i < columns; i++) {
        const block = token * blockCount + Math.floor(i / BLOCK);
        const pair = table.nibbles[block * 16 + (i & 15)];
        const quant = (i & 16) === 0 ? pair & 15 : pair >> 4;
        const product = (quant - 8) * fromBits(table.scales[block] << 16);
        output[offset + i] = Math.fround(product + fromBits(table.centres[block] << 16));
      }
      return;
    }
    default:
      assertNever(table);
  }
}
