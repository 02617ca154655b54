import { constants } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { StetError } from '@stet/backend';
import { fileHasher } from './file-hash.js';
import { bodyPieces, type HubClient, StallTimer } from './hub-client.js';
import { downloadError, networkMessage, PassingFailure, throwIfStopped } from './hub-error.js';
import type { RepoFile } from './repository.js';
import { withRetries } from './retry.js';

export interface TransferHooks {
  /** Bytes of the file that are there now; may go back, when a server does not go on where it should. */
  onBytes(done: number): void;
}

const READ_BYTES = 4 * 2 ** 20;

/**
 * Fetches a file to `target`, through `target.incomplete`: what is there of it is read, hashed and gone on from, in this
 * process and in the next. Bytes are written at their own places, so two processes that fetch the same file do not
 * disturb each other. The file gets its name only if its hash is right; otherwise it is deleted.
 * Rejects with `STET_ERR_DOWNLOAD`, `STET_ERR_ABORTED` or an error of the file system.
 */
export async function transferFile(
  client: HubClient,
  url: URL,
  file: RepoFile,
  target: string,
  hooks: TransferHooks,
): Promise<void> {
  const incomplete = `${target}.incomplete`;
  const handle = await open(incomplete, constants.O_RDWR | constants.O_CREAT, 0o666);
  let hex: string;
  try {
    const partial = new PartialFile(handle, file, hooks);
    await partial.resume(client.signal);
    await withRetries(() => fetchRest(client, url, partial), {
      ...{ limits: client.retry, signal: client.signal },
      progress: () => partial.furthest,
    });
    await handle.truncate(file.bytes);
    await handle.sync();
    hex = partial.hex();
  } finally {
    await handle.close();
  }
  if (hex !== file.hash.hex) {
    await rm(incomplete, { force: true });
    throw downloadError(`${file.path} arrived with the hash ${hex} in place of ${file.hash.hex}, and was deleted`);
  }
  await rename(incomplete, target).catch(async (error: unknown) => {
    // Another process may have finished the same file first.
    if ((await fileSize(target)) !== file.bytes) throw error;
  });
}

/** Bytes of a file, or undefined where there is none. */
export async function fileSize(path: string): Promise<number | undefined> {
  return stat(path).then(
    (found) => found.size,
    () => undefined,
  );
}

/** The bytes of a file that are there, and their hash so far. */
class PartialFile {
  readonly file: RepoFile;
  readonly #handle: FileHandle;
  readonly #hooks: TransferHooks;
  #hasher: ReturnType<typeof fileHasher>;
  #offset = 0;
  #furthest = 0;

  constructor(handle: FileHandle, file: RepoFile, hooks: TransferHooks) {
    this.#handle = handle;
    this.file = file;
    this.#hooks = hooks;
    this.#hasher = fileHasher(file);
  }

  get offset(): number {
    return this.#offset;
  }

  /** The largest offset there was: it alone is progress where a server makes us begin again and again. */
  get furthest(): number {
    return this.#furthest;
  }

  get isComplete(): boolean {
    return this.#offset === this.file.bytes;
  }

  /** Takes over what an earlier run left. */
  async resume(signal: AbortSignal): Promise<void> {
    const { size } = await this.#handle.stat();
    if (size > this.file.bytes) return this.restart();
    const buffer = new Uint8Array(Math.min(READ_BYTES, size));
    while (this.#offset < size) {
      throwIfStopped(signal);
      const { bytesRead } = await this.#handle.read(
        buffer,
        0,
        Math.min(buffer.length, size - this.#offset),
        this.#offset,
      );
      if (bytesRead === 0) return;
      this.#hasher.update(buffer.subarray(0, bytesRead));
      this.#advance(bytesRead);
    }
  }

  /** What is there stays until it is written over: another process may count on it. */
  restart(): void {
    this.#hasher = fileHasher(this.file);
    this.#offset = 0;
    this.#hooks.onBytes(0);
  }

  async append(piece: Uint8Array): Promise<void> {
    if (piece.length > this.file.bytes - this.#offset) {
      throw downloadError(`${this.file.path} goes on after its ${this.file.bytes} bytes`);
    }
    let written = 0;
    while (written < piece.length) {
      const { bytesWritten } = await this.#handle.write(piece, written, piece.length - written, this.#offset + written);
      written += bytesWritten;
    }
    this.#hasher.update(piece);
    this.#advance(piece.length);
  }

  /** The hasher is spent. */
  hex(): string {
    return this.#hasher.hex();
  }

  #advance(count: number): void {
    this.#offset += count;
    this.#furthest = Math.max(this.#furthest, this.#offset);
    this.#hooks.onBytes(this.#offset);
  }
}

async function fetchRest(client: HubClient, url: URL, partial: PartialFile): Promise<void> {
  if (partial.isComplete) return;
  const stall = new StallTimer(client.stallMs, client.signal);
  try {
    const response = await client.openFile(url, partial.offset, stall);
    await startWhereAnswered(response, partial);
    try {
      for await (const piece of bodyPieces(response)) {
        stall.restart();
        await partial.append(piece);
      }
    } catch (error) {
      throwIfStopped(client.signal);
      if (error instanceof StetError || (error instanceof Error && 'syscall' in error && isWriting(error))) throw error;
      throw new PassingFailure(`${url.host} broke off: ${networkMessage(error)}`, { cause: error });
    }
  } finally {
    stall.stop();
  }
  if (!partial.isComplete) {
    throw new PassingFailure(
      `${url.host} ended ${partial.file.path} at ${partial.offset} of ${partial.file.bytes} bytes`,
    );
  }
}

/** The answer must be the rest that was asked for; a server that sends all of it makes us begin again. */
async function startWhereAnswered(response: Response, partial: PartialFile): Promise<void> {
  const { path, bytes } = partial.file;
  if (response.status === 206) {
    const [, start, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('Content-Range') ?? '') ?? [];
    if (Number(start) === partial.offset && Number(total) === bytes) return;
    await response.body?.cancel();
    throw downloadError(`the server sent another part of ${path} than it was asked for`);
  }
  const length = response.headers.get('Content-Length');
  if (length !== null && Number(length) !== bytes && !response.headers.has('Content-Encoding')) {
    await response.body?.cancel();
    throw downloadError(`the server has ${length} bytes for ${path}, the hub lists ${bytes}`);
  }
  if (partial.offset > 0) partial.restart();
}

function isWriting(error: Error): boolean {
  return ['write', 'ftruncate'].includes(String((error as NodeJS.ErrnoException).syscall));
}
