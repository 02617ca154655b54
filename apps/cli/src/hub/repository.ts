import { isCommit } from './cache.js';
import type { HubClient } from './hub-client.js';
import { downloadError } from './hub-error.js';
import { isPlainPath } from './repo-spec.js';

/** A file of a repository at one commit. */
export interface RepoFile {
  readonly path: string;
  readonly bytes: number;
  /** Git's SHA-1 of small files, the SHA-256 of large ones: also the name of its blob in the cache. */
  readonly hash: { readonly kind: 'git-sha1' | 'sha256'; readonly hex: string };
}

export interface Repository {
  readonly repo: string;
  readonly commit: string;
  readonly files: readonly RepoFile[];
}

/** Most files and folders of a repository. */
const MAX_ENTRIES = 100_000;
const MAX_FILE_BYTES = 2 ** 42;

/**
 * Lists a repository as it is now. The commit is asked for first and the list is that commit's, so that a push between
 * the two mixes nothing. Rejects with `STET_ERR_DOWNLOAD`, also for names and numbers that cannot be right.
 */
export async function listRepository(client: HubClient, repo: string, revision: string): Promise<Repository> {
  // Loaded here: the commands that need no hub do not wait for it.
  const { listFiles, modelInfo } = await import('@huggingface/hub');
  const { endpoint: hubUrl, fetchApi } = client;
  const call = { hubUrl, fetch: fetchApi };
  const info = await modelInfo({ ...call, name: repo, revision, additionalFields: ['sha'] }).catch(unexpected);
  const commit: unknown = info.sha;
  if (typeof commit !== 'string' || !isCommit(commit)) throw downloadError(`the hub names no commit of ${repo}`);
  const files: RepoFile[] = [];
  const paths = new Set<string>();
  try {
    let entryCount = 0;
    for await (const entry of listFiles({ ...call, repo, revision: commit, recursive: true })) {
      if (++entryCount > MAX_ENTRIES) throw downloadError(`${repo} has more than ${MAX_ENTRIES} files`);
      if (isDirectory(entry)) continue;
      const file = parseEntry(entry, repo);
      // A name that cannot be one on every machine is as good as not there: nothing that Stet reads has one.
      if (!isPlainPath(file.path)) continue;
      if (paths.has(file.path)) throw downloadError(`${repo} lists ${JSON.stringify(file.path)} twice`);
      paths.add(file.path);
      files.push(file);
    }
  } catch (error) {
    unexpected(error);
  }
  return { repo, commit, files };
}

export function fileUrl({ endpoint }: HubClient, { repo, commit }: Repository, { path }: RepoFile): URL {
  return new URL(`${endpoint}/${repo}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`);
}

function isDirectory(entry: unknown): boolean {
  return typeof entry === 'object' && entry !== null && 'type' in entry && entry.type === 'directory';
}

/** An entry of the list, of which nothing is believed: its hash names a file in the cache. */
function parseEntry(value: unknown, repo: string): RepoFile {
  const { path, size, oid, lfs } = (value ?? {}) as Record<string, unknown>;
  if (typeof path !== 'string') throw downloadError(`${repo} lists ${quote(path)} as the name of a file`);
  const stored = (typeof lfs === 'object' && lfs !== null ? lfs : undefined) as Record<string, unknown> | undefined;
  const bytes = stored ? stored.size : size;
  if (typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes < 0 || bytes > MAX_FILE_BYTES) {
    throw downloadError(`${repo} lists ${quote(path)} with ${quote(bytes)} bytes`);
  }
  const hex = stored ? stored.oid : oid;
  if (typeof hex !== 'string' || !(stored ? /^[0-9a-f]{64}$/ : /^[0-9a-f]{40}$/).test(hex)) {
    throw downloadError(`${repo} lists ${quote(path)} with the hash ${quote(hex)}`);
  }
  return { path, bytes, hash: { kind: stored ? 'sha256' : 'git-sha1', hex } };
}

function quote(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').slice(0, 200);
}

/** Errors of ours pass; the library's own are about answers that are not what the hub says. */
function unexpected(error: unknown): never {
  if (error instanceof SyntaxError || error instanceof TypeError) {
    throw downloadError(`the hub answered with something else than its lists: ${error.message.slice(0, 200)}`, error);
  }
  throw error;
}
