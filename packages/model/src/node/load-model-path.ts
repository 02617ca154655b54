import { assertNever } from '@stet/backend';
import { loadGguf } from '../gguf/load-gguf.js';
import { loadModel } from '../load-model.js';
import type { LoadedModel, LoadOptions } from '../loaded-model.js';
import { findModel } from './find-model.js';
import { openFolder } from './folder-source.js';
import { nodeHasher } from './node-hasher.js';

/** The name of the model in `@stet/tales`. */
const EMBEDDED = 'tales';

/**
 * Loads the model at a path, for Node: a folder in Hugging Face layout, a `.gguf` file (of a split model, any part), a
 * folder with one model in GGUF, or `tales`, the embedded model. The name wins over a folder of that name, which
 * is `./tales`. Rejects with a `StetError`; `STET_ERR_MODEL_NOT_FOUND` says what was looked for.
 */
export async function loadModelPath(path: string | URL, options: LoadOptions = {}): Promise<LoadedModel> {
  if (path === EMBEDDED) {
    // Loaded here: who opens another model need not have it.
    const { talesFolder } = await import('@stet/tales');
    return loadModelPath(talesFolder, { name: EMBEDDED, ...options });
  }
  const place = await findModel(path);
  const source = await openFolder(place.folder);
  const loading = { createHasher: nodeHasher, ...options };
  switch (place.kind) {
    case 'folder':
      return loadModel(source, loading);
    case 'gguf':
      return loadGguf(source, place.file, loading);
    default:
      return assertNever(place);
  }
}
