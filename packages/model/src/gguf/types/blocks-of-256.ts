import type { TensorType } from '../../weights/stored-tensor.js';
import { halfAt } from './half.js';

/*
 * The K types: blocks of 256 values, in parts of 16 or 32 with integer scales (and minima) of their own, which one or
 * two halves scale again. A half times such a scale is exact in f32, and the rest of each value is exact in f64, so the
 * only rounding is that to f32, once a value, as in the reference.
 */

/** Parts of 16 values: `scale & 15` and `scale >> 4` are scale and minimum. */
export const Q2_K: TensorType = {
  name: 'Q2_K',
  blockValues: 256,
  blockBytes: 84,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 84, out += 256) {
      const blockScale = halfAt(bytes, block + 80);
      const blockMinimum = halfAt(bytes, block + 82);
      for (let part = 0; part < 16; part++) {
        const scales = bytes[block + part]!;
        const scale = blockScale * (scales & 15);
        const minimum = blockMinimum * (scales >> 4);
        const at = block + 16 + (part >> 3) * 32 + (part & 1) * 16;
        const shift = ((part >> 1) & 3) * 2;
        for (let i = 0; i < 16; i++) {
          target[out + part * 16 + i] = scale * ((bytes[at + i]! >> shift) & 3) - minimum;
        }
      }
    }
  },
};

/** Parts of 16 values with signed scales of six bits; a third bit of each value stands apart and means -4 where it is 0. */
export const Q3_K: TensorType = {
  name: 'Q3_K',
  blockValues: 256,
  blockBytes: 110,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 110, out += 256) {
      const blockScale = halfAt(bytes, block + 108);
      for (let part = 0; part < 16; part++) {
        const scale = blockScale * q3Scale(bytes, block + 96, part);
        const highAt = block + (part & 1) * 16;
        const lowAt = block + 32 + (part >> 3) * 32 + (part & 1) * 16;
        const highBit = part >> 1;
        const shift = (highBit & 3) * 2;
        for (let i = 0; i < 16; i++) {
          const high = ((bytes[highAt + i]! >> highBit) & 1) << 2;
          target[out + part * 16 + i] = scale * (((bytes[lowAt + i]! >> shift) & 3) + high - 4);
        }
      }
    }
  },
};

/** Four bits of a scale are in the first eight bytes, two in the last four. */
function q3Scale(bytes: Uint8Array, at: number, part: number): number {
  const low = (bytes[at + (part & 7)]! >> ((part >> 3) * 4)) & 15;
  const high = (bytes[at + 8 + (part & 3)]! >> ((part >> 2) * 2)) & 3;
  return (low | (high << 4)) - 32;
}

/** Parts of 32 values with scales and minima of six bits. */
export const Q4_K: TensorType = {
  name: 'Q4_K',
  blockValues: 256,
  blockBytes: 144,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 144, out += 256) {
      const blockScale = halfAt(bytes, block);
      const blockMinimum = halfAt(bytes, block + 2);
      for (let part = 0; part < 8; part++) {
        const scale = blockScale * k4Scale(bytes, block + 4, part);
        const minimum = blockMinimum * k4Minimum(bytes, block + 4, part);
        const at = block + 16 + (part >> 1) * 32;
        const shift = (part & 1) * 4;
        for (let i = 0; i < 32; i++) {
          target[out + part * 32 + i] = scale * ((bytes[at + i]! >> shift) & 15) - minimum;
        }
      }
    }
  },
  splitQ4: (bytes, nibbles, scales, minima) => {
    for (let block = 0, out = 0; block < bytes.length; block += 144, out += 8) {
      const blockScale = halfAt(bytes, block);
      const blockMinimum = halfAt(bytes, block + 2);
      for (let part = 0; part < 8; part++) {
        scales[out + part] = blockScale * k4Scale(bytes, block + 4, part);
        minima[out + part] = -blockMinimum * k4Minimum(bytes, block + 4, part);
        const at = block + 16 + (part >> 1) * 32;
        const shift = (part & 1) * 4;
        for (let i = 0; i < 16; i++) {
          const low = (bytes[at + i]! >> shift) & 15;
          const high = (bytes[at + i + 16]! >> shift) & 15;
          nibbles[(out + part) * 16 + i] = low | (high << 4);
        }
      }
    }
  },
};

/** As Q4_K, with a fifth bit of each value apart. */
export const Q5_K: TensorType = {
  name: 'Q5_K',
  blockValues: 256,
  blockBytes: 176,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 176, out += 256) {
      const blockScale = halfAt(bytes, block);
      const blockMinimum = halfAt(bytes, block + 2);
      for (let part = 0; part < 8; part++) {
        const scale = blockScale * k4Scale(bytes, block + 4, part);
        const minimum = blockMinimum * k4Minimum(bytes, block + 4, part);
        const at = block + 48 + (part >> 1) * 32;
        const shift = (part & 1) * 4;
        for (let i = 0; i < 32; i++) {
          const high = ((bytes[block + 16 + i]! >> part) & 1) << 4;
          target[out + part * 32 + i] = scale * (((bytes[at + i]! >> shift) & 15) | high) - minimum;
        }
      }
    }
  },
};

/** Twelve bytes hold eight scales and eight minima of six bits; of the last four of each, two bits are with the first four. */
function k4Scale(bytes: Uint8Array, at: number, part: number): number {
  if (part < 4) return bytes[at + part]! & 63;
  return (bytes[at + part + 4]! & 15) | ((bytes[at + part - 4]! >> 2) & 0x30);
}

function k4Minimum(bytes: Uint8Array, at: number, part: number): number {
  if (part < 4) return bytes[at + part + 4]! & 63;
  return (bytes[at + part + 4]! >> 4) | ((bytes[at + part]! >> 2) & 0x30);
}

/** Parts of 16 values with signed scales of eight bits; two bits of each value stand apart from the other four. */
export const Q6_K: TensorType = {
  name: 'Q6_K',
  blockValues: 256,
  blockBytes: 210,
  decode: (bytes, target) => {
    for (let block = 0, out = 0; block < bytes.length; block += 210, out += 256) {
      const blockScale = halfAt(bytes, block + 208);
      for (let part = 0; part < 16; part++) {
        const scale = blockScale * ((bytes[block + 192 + part]! << 24) >> 24);
        const half = part >> 3;
        const quarter = (part >> 1) & 3;
        const within = (part & 1) * 16;
        const lowAt = block + half * 64 + (quarter & 1) * 32 + within;
        const lowShift = (quarter >> 1) * 4;
        const highAt = block + 128 + half * 32 + within;
        const highShift = quarter * 2;
        for (let i = 0; i < 16; i++) {
          const low = (bytes[lowAt + i]! >> lowShift) & 15;
          const high = (bytes[highAt + i]! >> highShift) & 3;
          target[out + part * 16 + i] = scale * ((low | (high << 4)) - 32);
        }
      }
    }
  },
};
