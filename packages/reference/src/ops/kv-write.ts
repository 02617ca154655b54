import { type KvLayer, kvOffset } from '../kv-store.js';
import { quantizeQ15 } from './q15.js';

/** Quantizes the K and V heads of one row, which start at `offset`, and stores them in a slot. */
export function kvWrite(layer: KvLayer, slot: number, key: Float32Array, value: Float32Array, offset: number): void {
  const { headSize, kvHeadCount } = layer;
  for (let head = 0; head < kvHeadCount; head++) {
    const target = kvOffset(layer, slot, head);
    quantizeQ15(key, offset + head * headSize, headSize, layer.key, target);
    quantizeQ15(value, offset + head * headSize, headSize, layer.value, target);
  }
}
