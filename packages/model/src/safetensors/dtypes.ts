import { floatTypes } from '../weights/float-types.js';
import type { TensorType } from '../weights/stored-tensor.js';

/** Bits per element of every type that the safetensors format has. */
const dtypeBits = {
  BOOL: 8,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  F8_E8M0: 8,
  F8_E4M3FNUZ: 8,
  F8_E5M2FNUZ: 8,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  C64: 64,
  F64: 64,
  I64: 64,
  U64: 64,
} as const;

export type Dtype = keyof typeof dtypeBits;

export function isDtype(name: unknown): name is Dtype {
  return typeof name === 'string' && Object.hasOwn(dtypeBits, name);
}

export function bitsPerElement(dtype: Dtype): number {
  return dtypeBits[dtype];
}

/** How a tensor of this type is stored; without `decode` unless its values can be weights: F32, F16 and BF16. */
export function tensorType(dtype: Dtype): TensorType {
  if (Object.hasOwn(floatTypes, dtype)) return floatTypes[dtype as keyof typeof floatTypes];
  // Types below a byte are packed: eight elements are a whole number of bytes.
  const bits = dtypeBits[dtype];
  return bits % 8 === 0
    ? { name: dtype, blockValues: 1, blockBytes: bits / 8 }
    : { name: dtype, blockValues: 8, blockBytes: bits };
}
