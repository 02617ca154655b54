import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, readFile, readlink, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { StetError } from '@stet/backend';
import type { RepoSpec } from './repo-spec.js';

/** What the hub's Python library reads to find its cache, in its order. */
export type HubEnvironment = Readonly<Record<string, string | undefined>>;

/** The folder that Python's `huggingface_hub` uses too: what one of them has fetched, the other finds. */
export function hubCacheFolder(environment: HubEnvironment): string {
  const { HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME } = environment;
  const given = HF_HUB_CACHE || HUGGINGFACE_HUB_CACHE;
  if (given) return expandHome(given);
  const home = HF_HOME || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'huggingface');
  return join(expandHome(home), 'hub');
}

const COMMIT = /^[0-9a-f]{40}$/;

export function isCommit(revision: string): boolean {
  return COMMIT.test(revision);
}

/**
 * One repository in the cache: `blobs/` has files by their hash, `snapshots/<commit>/` links to them by their names,
 * `refs/<branch>` says which commit a branch is at.
 */
export class CachedRepo {
  readonly folder: string;

  constructor(cacheFolder: string, repo: string) {
    this.folder = join(cacheFolder, `models--${repo.replace('/', '--')}`);
  }

  blob(hash: string): string {
    return join(this.folder, 'blobs', hash);
  }

  snapshot(commit: string): string {
    return join(this.folder, 'snapshots', commit);
  }

  /** The commit that was fetched last for a branch or tag, or undefined where none was. */
  async commitOf(revision: string): Promise<string | undefined> {
    if (isCommit(revision)) return revision;
    const text = await readFile(join(this.folder, 'refs', revision), 'utf8').catch(() => '');
    return isCommit(text.trim()) ? text.trim() : undefined;
  }

  /** Says that a branch or tag is at a commit, once all of its files are there. */
  async setCommit(revision: string, commit: string): Promise<void> {
    if (isCommit(revision)) return;
    const path = join(this.folder, 'refs', revision);
    await mkdir(dirname(path), { recursive: true });
    const temporary = `${path}.${randomUUID()}.tmp`;
    await writeFile(temporary, commit);
    await rename(temporary, path);
  }

  /** Makes `snapshots/<commit>/<path>` lead to a blob: by a relative link or, where there are none, by a copy. */
  async link(commit: string, path: string, hash: string): Promise<void> {
    const target = this.blob(hash);
    const place = join(this.snapshot(commit), path);
    const link = relative(dirname(place), target);
    // A link that is right stays: someone may be reading the file.
    if ((await readlink(place).catch(() => undefined)) === link) return;
    await mkdir(dirname(place), { recursive: true });
    await rm(place, { force: true });
    try {
      await symlink(link, place);
    } catch (error) {
      switch ((error as NodeJS.ErrnoException).code) {
        case 'EEXIST': // Another process made the same link a moment ago.
          return;
        case 'EPERM':
        case 'ENOSYS':
        case 'ENOTSUP':
          return copyFile(target, place);
        default:
          throw error;
      }
    }
  }
}

/** A pulled model on this machine. */
export interface PulledModel {
  /** The snapshot's folder, or the file in it that was named. */
  readonly path: string;
  readonly name: string;
}

/** Finds what `stet pull` or Python fetched, without the network. Rejects with `STET_ERR_MODEL_NOT_FOUND`. */
export async function findPulled({ repo, file }: RepoSpec, cacheFolder: string): Promise<PulledModel> {
  const cached = new CachedRepo(cacheFolder, repo);
  const commit = await cached.commitOf('main');
  const path = commit && join(cached.snapshot(commit), file ?? '');
  const isThere = path && (await stat(path).catch(() => undefined));
  if (isThere) return { path: resolve(path), name: file === undefined ? repo : `${repo}:${file}` };
  const spec = file === undefined ? repo : `${repo}:${file}`;
  throw new StetError(
    'STET_ERR_MODEL_NOT_FOUND',
    `there is no folder ${spec}, and ${cacheFolder} has no such model: \`stet pull ${spec}\` fetches it`,
  );
}

function expandHome(path: string): string {
  return path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(1)) : path;
}
