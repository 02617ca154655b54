/** A 32-bit hash, as a signed integer, of a running state and one more integer; integer operations alone, so equal everywhere. */
export function mix32(state: number, value: number): number {
  let h = Math.imul(state ^ Math.imul(value, 0x9e3779b1), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0xc2b2ae35);
  return h ^ (h >>> 13);
}
