import { StetError } from '@stet/backend';
import type * as node from './index.js';

export { javascriptHasher as nodeHasher } from '../digest/hasher.js';

/** What stands in for the readers of folders where there are none: each rejects with `STET_ERR_UNSUPPORTED`. */
export const openFolder: typeof node.openFolder = async (path) => refuse(path);
export const loadModelFolder: typeof node.loadModelFolder = async (path) => refuse(path);
export const loadModelPath: typeof node.loadModelPath = async (path) => refuse(path);

function refuse(path: string | URL): never {
  throw new StetError(
    'STET_ERR_UNSUPPORTED',
    `a browser cannot read ${String(path).slice(0, 200)}: fetch its files and give createEngine loadModel(memorySource(files))`,
  );
}
