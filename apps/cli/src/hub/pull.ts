import { mkdir, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { CachedRepo } from './cache.js';
import { chooseFiles } from './choose-files.js';
import type { HubClient } from './hub-client.js';
import { downloadError } from './hub-error.js';
import { isPlainPath, type RepoSpec } from './repo-spec.js';
import { fileUrl, listRepository, type RepoFile, type Repository } from './repository.js';
import { fileSize, transferFile } from './transfer.js';

export interface PullOptions {
  /** A branch, tag or commit; `main` by default. */
  readonly revision?: string;
  readonly cacheFolder: string;
  readonly progress: PullProgress;
}

/** What is told while files arrive. */
export interface PullProgress {
  /** All that will be there in the end. */
  begin(fileCount: number, totalBytes: number): void;
  /** A file is begun; it is already there where `isCached`. */
  file(path: string, bytes: number, isCached: boolean): void;
  /** Bytes of all files that are there now. */
  bytes(done: number): void;
}

export interface PulledFiles {
  readonly commit: string;
  /** For `--model`: the snapshot's folder, or the file that was named (the first part of a split one). */
  readonly path: string;
}

/** Most files of one pull: those of a large model in many shards. */
const MAX_PULLED_FILES = 2000;

/**
 * Fetches what Stet needs of a repository, or one file of it, into the cache. What is there already is not fetched
 * again; the branch's name is set last, so that it never leads to half a model. Rejects with `STET_ERR_DOWNLOAD` or
 * `STET_ERR_ABORTED`; the next call goes on from there.
 */
export async function pullModel(client: HubClient, spec: RepoSpec, options: PullOptions): Promise<PulledFiles> {
  const { revision = 'main', cacheFolder, progress } = options;
  if (!isPlainPath(revision)) throw downloadError(`${JSON.stringify(revision)} names no revision`);
  const repository = await listRepository(client, spec.repo, revision);
  const files = chooseFiles(repository, spec.file);
  if (files.length > MAX_PULLED_FILES) {
    throw downloadError(`${spec.repo} has ${files.length} files of a model, at most ${MAX_PULLED_FILES} are fetched`);
  }
  const cached = new CachedRepo(cacheFolder, spec.repo);
  progress.begin(
    files.length,
    files.reduce((sum, file) => sum + file.bytes, 0),
  );
  try {
    let done = 0;
    for (const file of files) {
      await ensureFile(client, repository, file, cached, { progress, done });
      done += file.bytes;
    }
    await cached.setCommit(revision, repository.commit);
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw downloadError(`the cache fails: ${error.message}`, error);
    throw error;
  }
  const first = spec.file === undefined ? '' : files[0]!.path;
  return { commit: repository.commit, path: resolve(join(cached.snapshot(repository.commit), first)) };
}

async function ensureFile(
  client: HubClient,
  repository: Repository,
  file: RepoFile,
  cached: CachedRepo,
  { progress, done }: { readonly progress: PullProgress; readonly done: number },
): Promise<void> {
  const blob = cached.blob(file.hash.hex);
  const size = await fileSize(blob);
  const isCached = size === file.bytes;
  progress.file(file.path, file.bytes, isCached);
  if (!isCached) {
    await mkdir(dirname(blob), { recursive: true });
    // A blob of another size than its hash is known to have was damaged.
    if (size !== undefined) await rm(blob, { force: true });
    await transferFile(client, fileUrl(client, repository, file), file, blob, {
      onBytes: (count) => progress.bytes(done + count),
    });
  }
  await cached.link(repository.commit, file.path, file.hash.hex);
  progress.bytes(done + file.bytes);
}
