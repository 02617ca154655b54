import { createHash } from 'node:crypto';
import type { Hasher } from '../digest/hasher.js';

/** SHA-256 of OpenSSL. */
export function nodeHasher(): Hasher {
  const hash = createHash('sha256');
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest('hex') };
}
