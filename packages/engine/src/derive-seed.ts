import { sha256 } from '@noble/hashes/sha2.js';
import { utf8ToBytes } from '@noble/hashes/utils.js';

/**
 * The seed of one of several choices of a request: choice 0 has the request's own seed; choice i > 0 the low 53 bits,
 * read as little-endian, of SHA-256("stet choice 1" ‖ u64le(seed) ‖ u32le(i)). So a choice can be repeated alone.
 */
export function deriveSeed(seed: number, choice: number): number {
  if (choice === 0) return seed;
  const tag = utf8ToBytes('stet choice 1');
  const bytes = new Uint8Array(tag.length + 12);
  bytes.set(tag);
  const view = new DataView(bytes.buffer, tag.length);
  view.setUint32(0, seed >>> 0, true);
  view.setUint32(4, Math.floor(seed / 2 ** 32), true);
  view.setUint32(8, choice, true);
  const { buffer, byteOffset } = sha256(bytes);
  const digest = new DataView(buffer, byteOffset);
  return (digest.getUint32(4, true) & 0x1fffff) * 2 ** 32 + digest.getUint32(0, true);
}
