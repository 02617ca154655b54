import { type Plan, paddedHeadSize } from '@stet/backend';
import { allocateQ15, type Q15 } from './ops/q15.js';

/** K and V of one layer for every slot of the pool. */
export interface KvLayer {
  readonly key: Q15;
  readonly value: Q15;
  readonly kvHeadCount: number;
  readonly headSize: number;
}

/** A slot is the room of one position: block · blockSize + position % blockSize. */
export function allocateKvLayer(slotCount: number, kvHeadCount: number, headSize: number): KvLayer {
  const count = slotCount * kvHeadCount * paddedHeadSize(headSize);
  return { key: allocateQ15(count), value: allocateQ15(count), kvHeadCount, headSize };
}

export function allocateKv(plan: Plan, slotCount: number): KvLayer[] {
  return Array.from({ length: plan.layerCount }, () => allocateKvLayer(slotCount, plan.kvHeadCount, plan.headSize));
}

/** Bytes of one slot of one layer: two planes and the exponents, of K and of V. */
export function kvSlotBytes(kvHeadCount: number, headSize: number): number {
  const padded = paddedHeadSize(headSize);
  return 2 * kvHeadCount * (2 * padded + padded / 32);
}

/** First value of a head in the planes of a layer. */
export function kvOffset(layer: KvLayer, slot: number, kvHead: number): number {
  return (slot * layer.kvHeadCount + kvHead) * paddedHeadSize(layer.headSize);
}

/** slots[p] of positions 0 .. positionCount - 1 of a sequence, from its block table. */
export function slotsOf(blocks: Int32Array, blockSize: number, positionCount: number): Int32Array {
  const slots = new Int32Array(positionCount);
  for (let p = 0; p < positionCount; p++) slots[p] = blocks[Math.floor(p / blockSize)] * blockSize + (p % blockSize);
  return slots;
}
