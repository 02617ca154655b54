import type { TensorType } from '../../weights/stored-tensor.js';
import { halfAt } from './half.js';

/*
 * Types whose four bits name one of 16 values that are not evenly spaced. A byte holds value i of its part in its low
 * half and value i + 16 in its high half.
 */

const IQ4_VALUES = Int8Array.of(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

/** Floats of four bits (e2m1), doubled. */
const FP4_VALUES = Int8Array.of(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

export const IQ4_NL: TensorType = {
  name: 'IQ4_NL',
  blockValues: 32,
  blockBytes: 18,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 18, out += 32) {
      lookUp(bytes, block + 2, IQ4_VALUES, halfAt(bytes, block), target, out);
    }
  },
};

/** Eight parts of 32 values with signed scales of six bits. */
export const IQ4_XS: TensorType = {
  name: 'IQ4_XS',
  blockValues: 256,
  blockBytes: 136,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 136, out += 256) {
      const blockScale = halfAt(bytes, block);
      const highScales = bytes[block + 2]! | (bytes[block + 3]! << 8);
      for (let part = 0; part < 8; part++) {
        const low = (bytes[block + 4 + (part >> 1)]! >> ((part & 1) * 4)) & 15;
        const high = (highScales >> (part * 2)) & 3;
        const scale = blockScale * ((low | (high << 4)) - 32);
        lookUp(bytes, block + 8 + part * 16, IQ4_VALUES, scale, target, out + part * 32);
      }
    }
  },
};

/** Blocks scaled by a power of two (e8m0). */
export const MXFP4: TensorType = {
  name: 'MXFP4',
  blockValues: 32,
  blockBytes: 17,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 17, out += 32) {
      // Half of 2^(e - 127), because the table is doubled; exact in f64 for every exponent.
      lookUp(bytes, block + 1, FP4_VALUES, 2 ** (bytes[block]! - 128), target, out);
    }
  },
};

function lookUp(
  bytes: Uint8Array,
  at: number,
  values: Int8Array,
  scale: number,
  target: Float32Array,
  out: number,
): void {
  for (let i = 0; i < 16; i++) {
    const pair = bytes[at + i]!;
    target[out + i] = scale * values[pair & 15]!;
    target[out + i + 16] = scale * values[pair >> 4]!;
  }
}
