import type { WeightData } from '@stet/backend';
import { BLOCK, fromBits } from '@stet/backend/numerics';

/** output[offset .. offset + columns - 1] = row `token` of the table; exact in both formats. */
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
  }
}
