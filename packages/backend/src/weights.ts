import { assertNever } from './errors.js';
import type { WeightSpec } from './plan.js';

/**
 * A weight in the form the numerics define; conversion and the domain check happen once, on the host
 * (`encodeBf16`, `encodeQ8`, `encodeQ4` of `@stet/backend/numerics`), so every backend gets the same bits.
 */
export type WeightData =
  /** Bits of bf16 values, (rows × columns) row-major. */
  | { readonly kind: 'bf16'; readonly bits: Uint16Array }
  /** `quants` (rows × blockCount·32) int8, the last block padded with zeros; `scales` (rows × blockCount) f32 of as many bits as the quants leave room for (`encodeQ8`), blockCount = ceil(columns / 32). */
  | { readonly kind: 'q8'; readonly quants: Int8Array; readonly scales: Float32Array }
  /**
   * Blocks of 32 elements w = s·(q - 8) + c, q in 0..15. `nibbles` (rows × blockCount × 16): byte i of a block has q of
   * element i in its low and of element i + 16 in its high half. `scales` s and `centres` c (rows × blockCount), bf16 bits;
   * blockCount = ceil(columns / 32). Elements past a row's end have q = 8, which stands for c and not for 0: they add
   * nothing to a linear because the activations there are 0, and no embedding reads them.
   */
  | {
      readonly kind: 'q4';
      readonly nibbles: Uint8Array;
      readonly scales: Uint16Array;
      readonly centres: Uint16Array;
    }
  /** Norm weights and biases. */
  | { readonly kind: 'vector'; readonly values: Float32Array };

/** Bytes of the arrays of a weight. */
export function weightBytes(data: WeightData): number {
  switch (data.kind) {
    case 'bf16':
      return data.bits.byteLength;
    case 'q8':
      return data.quants.byteLength + data.scales.byteLength;
    case 'q4':
      return data.nibbles.byteLength + data.scales.byteLength + data.centres.byteLength;
    case 'vector':
      return data.values.byteLength;
    default:
      return assertNever(data);
  }
}

/** Where a backend takes its weights from, one at a time, while it loads. */
export interface WeightSource {
  /** Rejects with a `StetError` that names the tensor. The result is the caller's to keep. */
  read(spec: WeightSpec): Promise<WeightData>;
}
