import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';

/** SHA-256, fed in pieces. */
export interface Hasher {
  update(bytes: Uint8Array): void;
  /** Lower-case hex. The hasher is spent. */
  digest(): string;
}

/** SHA-256 in JavaScript; the Node entry uses OpenSSL's, which gives the same and is faster. */
export function javascriptHasher(): Hasher {
  const hash = sha256.create();
  return { update: (bytes) => void hash.update(bytes), digest: () => bytesToHex(hash.digest()) };
}

export function hashText(text: string): string {
  return bytesToHex(sha256(new TextEncoder().encode(text)));
}
