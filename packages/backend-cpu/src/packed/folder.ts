import { randomUUID } from 'node:crypto';
import type { Stats } from 'node:fs';
import { constants } from 'node:fs';
import { chmod, type FileHandle, lstat, mkdir, open, readdir, rename, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';

const SUFFIX = '.stet-packed';
/** Of files that are being written. */
const PARTIAL_SUFFIX = '.stet-partial';
/** Partial files that nobody has written to for so long were left by a process that died. */
const ABANDONED_MS = 60 * 60 * 1000;

interface FolderFile {
  readonly path: string;
  readonly isPartial: boolean;
  readonly sizeBytes: number;
  readonly usedMs: number;
}

/** The folder that files of packed weights lie in, by the names that their users give them. */
export class PackedFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  pathOf(name: string): string {
    return join(this.path, `${name}${SUFFIX}`);
  }

  /**
   * The open file of a name, or why it cannot be used. Only what this user or the system's owner wrote, and nobody else
   * may write to, is opened. The handle is the caller's to close.
   */
  async open(name: string): Promise<FileHandle | { readonly refused: string } | undefined> {
    let file: FileHandle;
    try {
      file = await open(this.pathOf(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      return codeOf(error) === 'ENOENT' ? undefined : { refused: reasonOf(error) };
    }
    const refused = whyNotTrusted(await file.stat());
    if (refused === undefined) return file;
    await file.close();
    return { refused };
  }

  /** Says that a file was used, so that others are removed before it. */
  async touch(file: FileHandle): Promise<void> {
    const now = new Date();
    // Whoever may not change the file may not remove others either; then its age does not matter.
    await file.utimes(now, now).catch(() => undefined);
  }

  /**
   * Writes a file as a whole or not at all: `write` fills one of another name, which then takes the place of any that has
   * this name. Rejects with what the system or `write` said; nothing is left then. Nobody waits for the disk: a file that
   * a crash of the system cut short fails its checksums, as one that a disk damaged does.
   */
  async write(name: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
    const partial = join(this.path, `${name}.${process.pid}.${randomUUID()}${PARTIAL_SUFFIX}`);
    try {
      const file = await open(partial, 'wx', 0o600);
      try {
        await write(file);
      } finally {
        await file.close();
      }
      // Nobody writes to it any more.
      await chmod(partial, 0o400);
      await rename(partial, this.pathOf(name));
    } catch (error) {
      await rm(partial, { force: true });
      throw error;
    }
  }

  /**
   * Makes the folder and room in it for a file of `bytes`, so that all take at most `maxBytes`: those that were not used
   * for longest are removed first. Resolves to why there is no room, or to undefined where there is.
   */
  async makeRoom(name: string, bytes: number, maxBytes: number): Promise<string | undefined> {
    if (bytes > maxBytes) return `the file would have ${bytes} bytes, more than the limit of ${maxBytes}`;
    await mkdir(this.path, { recursive: true, mode: 0o700 });
    let total = bytes;
    for (const { path, sizeBytes, isPartial } of await this.#files(name)) {
      total += sizeBytes;
      if (total > maxBytes && !isPartial) await rm(path, { force: true });
    }
    const { bavail, bsize } = await statfs(this.path);
    // Half of it, for others need the disk too.
    if (bytes > (bavail * bsize) / 2)
      return `the file would have ${bytes} bytes, more than half of what the disk has left`;
    return undefined;
  }

  /** All files but that of a name, those used last first; what was abandoned is removed. */
  async #files(name: string): Promise<FolderFile[]> {
    const files: FolderFile[] = [];
    for (const entry of await readdir(this.path)) {
      const path = join(this.path, entry);
      if (path === this.pathOf(name)) continue;
      const isPartial = entry.endsWith(PARTIAL_SUFFIX);
      if (!isPartial && !entry.endsWith(SUFFIX)) continue;
      // Another process may have removed it since.
      const stats = await lstat(path).catch(() => undefined);
      if (!stats?.isFile()) continue;
      if (isPartial && Date.now() - stats.mtimeMs > ABANDONED_MS) await rm(path, { force: true });
      else files.push({ path, isPartial, sizeBytes: stats.size, usedMs: stats.mtimeMs });
    }
    return files.sort((a, b) => b.usedMs - a.usedMs);
  }
}

/** What went wrong in words that name the system's code. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

const OTHERS_WRITE = 0o022;

function whyNotTrusted(stats: Stats): string | undefined {
  if (!stats.isFile()) return 'it is no file';
  if (stats.uid !== process.geteuid?.() && stats.uid !== 0) return 'it belongs to another user';
  if ((stats.mode & OTHERS_WRITE) !== 0) return 'others may write to it';
  return undefined;
}
