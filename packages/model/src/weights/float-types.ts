import { bf16ToFloats, halfToFloats } from './float-conversion.js';
import type { TensorType } from './stored-tensor.js';

/** The types without blocks, which every format of checkpoints has. */
export const floatTypes = {
  F32: {
    name: 'F32',
    blockValues: 1,
    blockBytes: 4,
    decode: (bytes, target) => {
      const { buffer, byteOffset } = aligned(bytes, 4);
      target.set(new Float32Array(buffer, byteOffset, target.length));
    },
  },
  F16: {
    name: 'F16',
    blockValues: 1,
    blockBytes: 2,
    decode: (bytes, target) => halfToFloats(words16(bytes), target),
  },
  BF16: {
    name: 'BF16',
    blockValues: 1,
    blockBytes: 2,
    decode: (bytes, target) => bf16ToFloats(words16(bytes), target),
  },
} as const satisfies Record<string, TensorType>;

/** Little-endian 16-bit words: a view of the bytes, or a copy where they lie at an odd address. */
export function words16(bytes: Uint8Array): Uint16Array {
  const { buffer, byteOffset, length } = aligned(bytes, 2);
  return new Uint16Array(buffer, byteOffset, length / 2);
}

/** The same of 32 bits. */
export function words32(bytes: Uint8Array): Uint32Array {
  const { buffer, byteOffset, length } = aligned(bytes, 4);
  return new Uint32Array(buffer, byteOffset, length / 4);
}

function aligned(bytes: Uint8Array, elementBytes: number): Uint8Array {
  return bytes.byteOffset % elementBytes === 0 ? bytes : bytes.slice();
}
