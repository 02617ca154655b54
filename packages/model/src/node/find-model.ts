import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StetError } from '@stet/backend';
import { quote } from '../files/quote.js';

/** What a path leads to. */
export type ModelPlace =
  /** A folder in Hugging Face layout. */
  | { readonly kind: 'folder'; readonly folder: string }
  /** A GGUF file of a folder; of a split model, its first part. */
  | { readonly kind: 'gguf'; readonly folder: string; readonly file: string };

const CONFIG = 'config.json';
const GGUF = /\.gguf$/i;
const GGUF_PART = /^(.*)-\d{5}-of-(\d{5})\.gguf$/is;
/** Most files that an error lists. */
const MAX_LISTED = 8;

/**
 * Finds the model at a path: a folder with config.json, a `.gguf` file, or a folder with one model in GGUF.
 * Rejects with `STET_ERR_MODEL_NOT_FOUND`, which says what was looked for.
 */
export async function findModel(path: string | URL): Promise<ModelPlace> {
  const place = path instanceof URL ? fileURLToPath(path) : resolve(path);
  const found = await stat(place).catch((cause: unknown) => notFound(path, place, cause));
  if (found.isDirectory()) return findInFolder(place);
  if (found.isFile() && GGUF.test(place)) return { kind: 'gguf', folder: dirname(place), file: basename(place) };
  throw new StetError(
    'STET_ERR_MODEL_NOT_FOUND',
    found.isFile()
      ? `${place} is no model: of single files, those that end in .gguf are read`
      : `${place} is neither a folder nor a file`,
  );
}

async function findInFolder(folder: string): Promise<ModelPlace> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new StetError('STET_ERR_MODEL_NOT_FOUND', `cannot list the folder ${folder}`, { cause });
  });
  if (names.includes(CONFIG)) return { kind: 'folder', folder };
  const [first, ...others] = firstParts(names.filter((name) => GGUF.test(name)));
  if (first === undefined) {
    throw new StetError('STET_ERR_MODEL_NOT_FOUND', `${folder} has neither ${CONFIG} nor a .gguf file`);
  }
  if (others.length === 0) return { kind: 'gguf', folder, file: first };
  const listed = [first, ...others].slice(0, MAX_LISTED).map(quote).join(', ');
  const more = others.length >= MAX_LISTED ? ` and ${others.length + 1 - MAX_LISTED} more` : '';
  throw new StetError(
    'STET_ERR_MODEL_NOT_FOUND',
    `${folder} has several models: give the path of one of ${listed}${more}`,
  );
}

/** One name for each model: of split ones the least, which is the first part unless that is missing. */
function firstParts(names: readonly string[]): string[] {
  const models = new Map<string, string>();
  for (const name of [...names].sort()) {
    const [, stem, total] = GGUF_PART.exec(name) ?? [];
    const model = stem === undefined ? name : `${stem}/${total}`;
    if (!models.has(model)) models.set(model, name);
  }
  return [...models.values()];
}

function notFound(path: string | URL, place: string, cause: unknown): never {
  const { code } = cause as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'ENOTDIR') {
    throw new StetError('STET_ERR_MODEL_NOT_FOUND', `cannot open ${place} (${code})`, { cause });
  }
  const text = String(path);
  // What looks like a repository of the hub was probably meant as one.
  const pulling = /^[\w-][\w.-]*\/[\w.-]+(:[^:]+)?$/.test(text)
    ? `; \`stet pull ${text}\` fetches it from the hub`
    : '';
  throw new StetError('STET_ERR_MODEL_NOT_FOUND', `there is no folder or file ${place}${pulling}`, { cause });
}
