import { type Plan, paddedHeadSize } from '@stet/backend';

/**
 * Where K/V lie in the two buffers of a layer, `keys` and `values`, arrays of u32. A *head block* holds the positions of one block
 * and one K/V head; that of block b and head h begins at word (b·kvHeadCount + h)·headBlockWords. In it, one after the other, with
 * H the padded head size and P the positions of a block:
 *
 * - the high plane, P·H/4 words, and the low plane, as many. In `keys` word [position][H/4] has four neighbouring elements of one
 *   position, in `values` word [P/4][H] has one element of four neighbouring positions, the first in the lowest byte;
 * - the exponents, P·exponentWords words [position][exponentWords]: i8 of each block of 32 elements, the first in the lowest byte.
 */
export interface KvLayout {
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly paddedHeadSize: number;
  /** Positions of a block. */
  readonly blockSize: number;
  readonly exponentWords: number;
  readonly headBlockWords: number;
  /** Bytes of `keys` and of `values` of one layer. */
  readonly layerBytes: number;
}

/** A layer's K/V on the device. */
export interface KvBuffers {
  readonly keys: GPUBuffer;
  readonly values: GPUBuffer;
}

export function kvLayout(
  { kvHeadCount, headSize }: Pick<Plan, 'kvHeadCount' | 'headSize'>,
  blockSize: number,
  blockCount: number,
): KvLayout {
  const padded = paddedHeadSize(headSize);
  const exponentWords = Math.ceil(padded / 32 / 4);
  const headBlockWords = blockSize * ((2 * padded) / 4 + exponentWords);
  return {
    kvHeadCount,
    headSize,
    paddedHeadSize: padded,
    blockSize,
    exponentWords,
    headBlockWords,
    layerBytes: blockCount * kvHeadCount * headBlockWords * 4,
  };
}
