import { StetError } from '@stet/backend';
import type { FormatOption, LoadedModel } from '@stet/model';

/** How a model that is given by its path is loaded; see `LoadOptions` of `@stet/model`. */
export interface OpenModelOptions {
  /** Format of all matrices, or `auto`, the default: what suits each of them. It is part of the fingerprint. */
  readonly format?: FormatOption;
  /** Positions that are used, at most the model's own, which are the default. It is part of the fingerprint. */
  readonly contextLength?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: LoadProgress) => void;
}

/** What loading is at: `files` are read for the digest, in bytes; then `weights` go to the backend, one by one. */
export interface LoadProgress {
  readonly phase: 'files' | 'weights';
  readonly done: number;
  readonly total: number;
}

/** A path, `tales`, or a model that is or will be loaded. */
export type ModelOption = string | URL | LoadedModel | Promise<LoadedModel>;

/** Paths are for Node: in a browser they are refused with `STET_ERR_UNSUPPORTED`. */
export async function openModel(model: ModelOption, options: OpenModelOptions): Promise<LoadedModel> {
  const { format, contextLength, signal, onProgress } = options;
  if (typeof model !== 'string' && !(model instanceof URL)) return loadedModel(await model, options);
  const { loadModelPath } = await import('@stet/model/node');
  return loadModelPath(model, {
    ...(format && { format }),
    ...(contextLength !== undefined && { contextLength }),
    ...(signal && { signal }),
    ...(onProgress && {
      onProgress: (done: number, total: number) => onProgress({ phase: 'files', done, total }),
    }),
  });
}

/** What a loaded model was not loaded with cannot be had any more. */
async function loadedModel(model: LoadedModel, { format, contextLength }: OpenModelOptions): Promise<LoadedModel> {
  for (const [name, value] of Object.entries({ format, contextLength })) {
    if (value === undefined) continue;
    await model.close();
    throw new StetError('STET_ERR_UNSUPPORTED', `${name} is for a model given by its path: load this one with it`);
  }
  return model;
}
