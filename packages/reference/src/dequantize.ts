import { assertNever, type WeightData, type WeightSpec } from '@stet/backend';
import { embed } from './ops/embed.js';

/** The values that stored weights stand for, row-major without padding: exact in f32, but for those of `q4`, which are rounded to it once. */
export function dequantize(spec: WeightSpec, data: WeightData): Float32Array {
  switch (data.kind) {
    case 'vector':
      return data.values;
    case 'bf16':
    case 'q8':
    case 'q4': {
      const { rows, columns } = spec.kind === 'matrix' ? spec : { rows: 0, columns: 0 };
      const values = new Float32Array(rows * columns);
      for (let row = 0; row < rows; row++) embed(data, columns, row, values, row * columns);
      return values;
    }
    default:
      return assertNever(data);
  }
}
