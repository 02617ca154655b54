import { StetError } from '@stet/backend';
import type { FileSource } from '../files/source.js';
import type { LoadedModel, LoadOptions } from '../loaded-model.js';

export { javascriptHasher as nodeHasher } from '../digest/hasher.js';

// What stands in for the readers of folders where there are none, with their types and without Node's.

/** Rejects with `STET_ERR_UNSUPPORTED`. */
export async function openFolder(path: string | URL): Promise<FileSource> {
  return refuse(path);
}

/** Rejects with `STET_ERR_UNSUPPORTED`. */
export async function loadModelFolder(path: string | URL, _options?: LoadOptions): Promise<LoadedModel> {
  return refuse(path);
}

/** Rejects with `STET_ERR_UNSUPPORTED`. */
export async function loadModelPath(path: string | URL, _options?: LoadOptions): Promise<LoadedModel> {
  return refuse(path);
}

function refuse(path: string | URL): never {
  throw new StetError(
    'STET_ERR_UNSUPPORTED',
    `a browser cannot read ${String(path).slice(0, 200)}: give createEngine loadModel(urlSource(urls)), with the URLs of its files`,
  );
}
