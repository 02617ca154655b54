import { words16, words32 } from '../../weights/float-types.js';
import type { TensorType } from '../../weights/stored-tensor.js';
import { half, halfAt } from './half.js';

/*
 * Types with blocks of 32 values. A byte of four-bit integers holds value i in its low half and value i + 16 in its
 * high half. Scales are halves: their products with the integers are exact, in f32 and in f64 alike, so the only
 * rounding is that of the sum to f32, as in the reference.
 */

export const Q4_0: TensorType = {
  name: 'Q4_0',
  blockValues: 32,
  blockBytes: 18,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 18, out += 32) {
      const scale = halfAt(bytes, block);
      for (let i = 0; i < 16; i++) {
        const pair = bytes[block + 2 + i]!;
        target[out + i] = scale * ((pair & 15) - 8);
        target[out + i + 16] = scale * ((pair >> 4) - 8);
      }
    }
  },
  splitQ4: (bytes, nibbles, scales, minima) => {
    const words = words16(bytes);
    const target = new Uint16Array(nibbles.buffer, nibbles.byteOffset, nibbles.length / 2);
    for (let i = 0, block = 0, out = 0; i < scales.length; i++, block += 9, out += 8) {
      const scale = half(words[block]!);
      scales[i] = scale;
      minima[i] = -8 * scale;
      for (let k = 0; k < 8; k++) target[out + k] = words[block + 1 + k]!;
    }
  },
};

export const Q4_1: TensorType = {
  name: 'Q4_1',
  blockValues: 32,
  blockBytes: 20,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 20, out += 32) {
      const scale = halfAt(bytes, block);
      const minimum = halfAt(bytes, block + 2);
      for (let i = 0; i < 16; i++) {
        const pair = bytes[block + 4 + i]!;
        target[out + i] = scale * (pair & 15) + minimum;
        target[out + i + 16] = scale * (pair >> 4) + minimum;
      }
    }
  },
  splitQ4: (bytes, nibbles, scales, minima) => {
    const words = words32(bytes);
    const target = new Uint32Array(nibbles.buffer, nibbles.byteOffset, nibbles.length / 4);
    for (let i = 0, block = 0, out = 0; i < scales.length; i++, block += 5, out += 4) {
      const halves = words[block]!;
      scales[i] = half(halves & 0xffff);
      minima[i] = half(halves >>> 16);
      target[out] = words[block + 1]!;
      target[out + 1] = words[block + 2]!;
      target[out + 2] = words[block + 3]!;
      target[out + 3] = words[block + 4]!;
    }
  },
};

export const Q5_0: TensorType = {
  name: 'Q5_0',
  blockValues: 32,
  blockBytes: 22,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 22, out += 32) {
      const scale = halfAt(bytes, block);
      const high = word32(bytes, block + 2);
      for (let i = 0; i < 16; i++) {
        const pair = bytes[block + 6 + i]!;
        target[out + i] = scale * (((pair & 15) | (((high >>> i) & 1) << 4)) - 16);
        target[out + i + 16] = scale * (((pair >> 4) | (((high >>> (i + 16)) & 1) << 4)) - 16);
      }
    }
  },
};

export const Q5_1: TensorType = {
  name: 'Q5_1',
  blockValues: 32,
  blockBytes: 24,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 24, out += 32) {
      const scale = halfAt(bytes, block);
      const minimum = halfAt(bytes, block + 2);
      const high = word32(bytes, block + 4);
      for (let i = 0; i < 16; i++) {
        const pair = bytes[block + 8 + i]!;
        target[out + i] = scale * ((pair & 15) | (((high >>> i) & 1) << 4)) + minimum;
        target[out + i + 16] = scale * ((pair >> 4) | (((high >>> (i + 16)) & 1) << 4)) + minimum;
      }
    }
  },
};

export const Q8_0: TensorType = {
  name: 'Q8_0',
  blockValues: 32,
  blockBytes: 34,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 34, out += 32) {
      const scale = halfAt(bytes, block);
      for (let i = 0; i < 32; i++) target[out + i] = scale * ((bytes[block + 2 + i]! << 24) >> 24);
    }
  },
};

/** Bits of the fifth places, one a value. */
function word32(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
}
