import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assert, StetError } from '@stet/backend';
import { causeMessage } from '../files/quote.js';
import type { FileSource } from '../files/source.js';

/** Bytes of one read call; larger ranges are read in several. */
const MAX_READ_BYTES = 64 * 2 ** 20;

/**
 * The files of a folder, for Node. Each file is opened when it is first read and stays open until `close`, so that a
 * model whose files are replaced while it loads is never mixed from two versions of one file.
 * Rejects with `STET_ERR_MODEL_NOT_FOUND` where the path is no folder.
 */
export async function openFolder(path: string | URL): Promise<FileSource> {
  const folder = path instanceof URL ? fileURLToPath(path) : resolve(path);
  const found = await stat(folder).catch((cause: unknown) => {
    throw new StetError('STET_ERR_MODEL_NOT_FOUND', `there is no folder ${folder}`, { cause });
  });
  if (!found.isDirectory()) throw new StetError('STET_ERR_MODEL_NOT_FOUND', `${folder} is not a folder`);
  return new FolderSource(folder);
}

class FolderSource implements FileSource {
  readonly location: string;
  readonly #open = new Map<string, Promise<OpenFile>>();
  #closed = false;

  constructor(folder: string) {
    this.location = folder;
  }

  async list(): Promise<string[]> {
    const entries = await readdir(this.location, { withFileTypes: true });
    // Links count: the cache of the Hugging Face hub keeps its files as links.
    return entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map((entry) => entry.name);
  }

  async size(name: string): Promise<number> {
    return (await this.#file(name)).size;
  }

  async read(name: string, start: number, end: number): Promise<Uint8Array> {
    const { handle, size } = await this.#file(name);
    assert(start >= 0 && start <= end && end <= size, `read ${start}..${end} of ${name}, which has ${size} bytes`);
    const bytes = new Uint8Array(end - start);
    let done = 0;
    while (done < bytes.length) {
      const length = Math.min(bytes.length - done, MAX_READ_BYTES);
      const { bytesRead } = await handle.read(bytes, done, length, start + done);
      if (bytesRead === 0) {
        const code = name.endsWith('.gguf') ? 'STET_ERR_BAD_GGUF' : 'STET_ERR_BAD_SAFETENSORS';
        throw new StetError(code, `${name} became shorter while it was read`);
      }
      done += bytesRead;
    }
    return bytes;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const files = [...this.#open.values()];
    this.#open.clear();
    for (const result of await Promise.allSettled(files)) {
      if (result.status === 'fulfilled') await result.value.handle.close();
    }
  }

  #file(name: string): Promise<OpenFile> {
    assert(!this.#closed, `${this.location} is closed`);
    assert(
      name === basename(name) && !['', '.', '..'].includes(name),
      `${JSON.stringify(name)} is not a plain file name`,
    );
    let file = this.#open.get(name);
    if (!file) {
      file = openFile(join(this.location, name));
      this.#open.set(name, file);
    }
    return file;
  }
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly size: number;
}

async function openFile(path: string): Promise<OpenFile> {
  const notFound = (cause: unknown): never => {
    throw new StetError('STET_ERR_MODEL_NOT_FOUND', `cannot open ${path}: ${causeMessage(cause)}`, { cause });
  };
  // Opening a named pipe would wait for its writer for ever.
  if (!(await stat(path).catch(notFound)).isFile()) notFound(new Error('not a regular file'));
  const handle = await open(path, 'r').catch(notFound);
  try {
    return { handle, size: (await handle.stat()).size };
  } catch (cause) {
    await handle.close();
    return notFound(cause);
  }
}
