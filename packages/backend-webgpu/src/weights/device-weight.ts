import type { WeightFormat } from '@stet/backend';

/**
 * A weight on the device. Matrices lie so that invocations of neighbouring outputs n read neighbouring 16 bytes; a part has N
 * of the matrix's rows (outputs) and B = ceil(columns / 32) blocks:
 *
 * - `bf16`: `data` is vec4<u32> [ceil(columns / 8)][N]: eight bf16 of one output, the first in the low half of x; past a row's end 0.
 * - `q8`: `data` is vec4<u32> [B][2][N]: 16 i8 quants, the first in the lowest byte of x; `scales` is f32 [B][N].
 * - `q4`: `data` is vec4<u32> [B][N]: the 16 bytes of a block, byte i with q of element i in its low and of element i + 16 in
 *   its high half; `scales` is u32 [B][N]: bf16 bits of s in the low, of c in the high half.
 */
export type DeviceWeight =
  | { readonly kind: 'vector'; readonly buffer: GPUBuffer }
  | {
      readonly kind: 'matrix';
      readonly format: WeightFormat;
      readonly rows: number;
      readonly columns: number;
      /** Rows 0.. in order; more than one where a binding of the device would be too small. */
      readonly parts: readonly MatrixPart[];
    };

export interface MatrixPart {
  readonly firstRow: number;
  /** N */
  readonly rowCount: number;
  readonly data: GPUBuffer;
  /** Of byte formats. */
  readonly scales?: GPUBuffer;
}

export type DeviceMatrix = DeviceWeight & { readonly kind: 'matrix' };
