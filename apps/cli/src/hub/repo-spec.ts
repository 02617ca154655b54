import { StetError } from '@stet/backend';

/** `org/name`, and one file of it where one was named. */
export interface RepoSpec {
  readonly repo: string;
  /** A path in the repository, with `/` between its parts. */
  readonly file?: string;
}

/** Limits of the hub itself, and of file systems. */
const MAX_PART_LENGTH = 96;
const MAX_SEGMENT_LENGTH = 255;
const MAX_PATH_LENGTH = 1024;

/** `org/name` or `org/name:file`; undefined for what cannot be one, such as `./folder` or `a/b/c`. */
export function parseRepoSpec(text: string): RepoSpec | undefined {
  const [, repo, file] = /^([^:/\\]+\/[^:/\\]+)(?::(.+))?$/s.exec(text) ?? [];
  if (repo === undefined || !repo.split('/').every(isRepoPart)) return undefined;
  if (file === undefined) return text === repo ? { repo } : undefined;
  return isPlainPath(file) ? { repo, file } : undefined;
}

/** Throws `STET_ERR_DOWNLOAD` for what is no repository's name. */
export function requireRepoSpec(text: string): RepoSpec {
  const spec = parseRepoSpec(text);
  if (spec) return spec;
  const message = `${JSON.stringify(text.slice(0, 200))} names no model: it must be org/name or org/name:file`;
  throw new StetError('STET_ERR_DOWNLOAD', message);
}

/**
 * Whether a path of a repository may become one on this machine: no part that leaves its folder, is hidden behind
 * another system's rules (drives, backslashes, streams), or cannot be printed.
 */
export function isPlainPath(path: string): boolean {
  if (path.length > MAX_PATH_LENGTH) return false;
  return path.split('/').every((part) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    const isPlain = !/[\u0000-\u001f\u007f\\:*?"<>|]/.test(part) && !/[. ]$/.test(part);
    return isPlain && part !== '' && Buffer.byteLength(part) <= MAX_SEGMENT_LENGTH;
  });
}

function isRepoPart(part: string): boolean {
  return part.length <= MAX_PART_LENGTH && /^\w[\w.-]*$/.test(part) && !/--|\.\.|[.-]$/.test(part);
}
