import type { RopeTables } from '@stet/backend/numerics';
import { b1, splitHigh, splitLow } from '../primitives.js';

const { fround } = Math;

/**
 * Rotates the head x[offset .. offset + headSize - 1] in place by its position, pairs (i, i + headSize / 2). x is split
 * into two parts of 12 bits and the tables have 12 bits: every product is exact.
 */
export function rope(x: Float32Array, offset: number, headSize: number, tables: RopeTables, position: number): void {
  const half = headSize / 2;
  for (let i = 0; i < half; i++) {
    const c = tables.cosine[position * half + i];
    const s = tables.sine[position * half + i];
    const a = x[offset + i];
    const b = x[offset + half + i];
    const aHigh = splitHigh(a);
    const aLow = splitLow(a);
    const bHigh = splitHigh(b);
    const bLow = splitLow(b);
    x[offset + i] = fround(b1(fround(aHigh * c - bHigh * s)) + b1(fround(aLow * c - bLow * s)));
    x[offset + half + i] = fround(b1(fround(aHigh * s + bHigh * c)) + b1(fround(aLow * s + bLow * c)));
  }
}
