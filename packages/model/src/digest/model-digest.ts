import { throwIfAborted } from '../files/abort.js';
import type { FileSource } from '../files/source.js';
import { type Hasher, hashText } from './hasher.js';

/** Bytes that are read and hashed at once. */
const CHUNK_BYTES = 4 * 2 ** 20;

/**
 * What a model is, in 64 hex digits: SHA-256 over the name, size and SHA-256 of each file, names ascending. Where the
 * files lie and what else lies there does not matter.
 */
export async function modelDigest(
  source: FileSource,
  files: readonly string[],
  createHasher: () => Hasher,
  signal?: AbortSignal,
): Promise<string> {
  const lines: string[] = ['stet-model-1'];
  for (const name of [...files].sort()) {
    const size = await source.size(name);
    const hasher = createHasher();
    for (let start = 0; start < size; start += CHUNK_BYTES) {
      throwIfAborted(signal);
      hasher.update(await source.read(name, start, Math.min(start + CHUNK_BYTES, size)));
    }
    lines.push(JSON.stringify([name, size, hasher.digest()]));
  }
  return hashText(lines.join('\n'));
}
