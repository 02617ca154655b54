import { throwIfAborted } from '../files/abort.js';
import type { FileSource } from '../files/source.js';
import { type Hasher, hashText } from './hasher.js';

/** Bytes that are read and hashed at once. */
const CHUNK_BYTES = 4 * 2 ** 20;

export interface DigestOptions {
  readonly createHasher: () => Hasher;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((doneBytes: number, totalBytes: number) => void) | undefined;
}

export interface ModelDigest {
  /** 64 hex digits. */
  readonly hex: string;
  /** Names ascending. */
  readonly files: readonly string[];
  /** Size of all files together. */
  readonly bytes: number;
}

/**
 * What a model is: SHA-256 over the name, size and SHA-256 of each file, names ascending. Where the files lie, what
 * else lies there and what a GGUF file is called does not matter.
 */
export async function modelDigest(
  source: FileSource,
  fileNames: readonly string[],
  { createHasher, signal, onProgress }: DigestOptions,
): Promise<ModelDigest> {
  const files = [...fileNames].sort();
  const sizes = await Promise.all(files.map((name) => source.size(name)));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  const lines: string[] = ['stet-model-1'];
  let done = 0;
  for (const [index, name] of files.entries()) {
    const hasher = createHasher();
    for await (const chunk of chunks(source, name, sizes[index]!, signal)) {
      hasher.update(chunk);
      done += chunk.length;
      onProgress?.(done, bytes);
    }
    lines.push(JSON.stringify([label(name, index), sizes[index], hasher.digest()]));
  }
  return { hex: hashText(lines.join('\n')), files, bytes };
}

/** Files of a Hugging Face folder have names of their own; what people call a GGUF file does not matter, but its place does. */
function label(name: string, index: number): string {
  return name.endsWith('.gguf') ? `${index + 1}.gguf` : name;
}

/** A file in pieces; while one is used the next is being read. */
async function* chunks(
  source: FileSource,
  name: string,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const read = (start: number): Promise<Uint8Array> => {
    throwIfAborted(signal);
    const reading = source.read(name, start, Math.min(start + CHUNK_BYTES, size));
    // Whoever stops in between does not wait for it; whoever goes on gets its error below.
    reading.catch(() => {});
    return reading;
  };
  let next = size > 0 ? read(0) : undefined;
  for (let end = CHUNK_BYTES; next; end += CHUNK_BYTES) {
    const chunk = await next;
    next = end < size ? read(end) : undefined;
    yield chunk;
  }
}
