import { loadModel } from '../load-model.js';
import type { LoadedModel, LoadOptions } from '../loaded-model.js';
import { openFolder } from './folder-source.js';
import { nodeHasher } from './node-hasher.js';

/** `loadModel` from a folder on disk, for Node. */
export async function loadModelFolder(path: string | URL, options: LoadOptions = {}): Promise<LoadedModel> {
  return loadModel(await openFolder(path), { createHasher: nodeHasher, ...options });
}
