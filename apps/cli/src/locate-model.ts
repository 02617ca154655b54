import { stat } from 'node:fs/promises';
import { talesName } from '@stet/tales';
import { findPulled, hubCacheFolder } from './hub/cache.js';
import { parseRepoSpec } from './hub/repo-spec.js';

/** Where the model of `--model` is. */
export interface ModelLocation {
  /** For `loadModelPath`. */
  readonly path: string;
  /** Present where the path does not say what the model is called: a snapshot of the cache is named by its commit. */
  readonly name?: string;
}

/**
 * `tales`, a path, or `org/name[:file]` that was pulled before, in this order; nothing is fetched. Rejects with
 * `STET_ERR_MODEL_NOT_FOUND` for what looks like a model of the hub and is not in the cache.
 */
export async function locateModel(model: string): Promise<ModelLocation> {
  if (model === talesName || (await exists(model))) return { path: model };
  const spec = parseRepoSpec(model);
  return spec ? findPulled(spec, hubCacheFolder(process.env)) : { path: model };
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
