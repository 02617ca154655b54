import { createHash } from 'node:crypto';
import type { RepoFile } from './repository.js';

/** The hash by which the hub knows a file, fed in pieces. */
export function fileHasher({ hash, bytes }: RepoFile): { update(piece: Uint8Array): void; hex(): string } {
  const hasher = createHash(hash.kind === 'sha256' ? 'sha256' : 'sha1');
  // Git hashes a header with the size before the bytes.
  if (hash.kind === 'git-sha1') hasher.update(`blob ${bytes}\0`);
  return { update: (piece) => void hasher.update(piece), hex: () => hasher.digest('hex') };
}
