import { fileURLToPath } from 'node:url';

/**
 * Folders beside src/ and dist/. They are looked up here and not where they are used, because this file is as deep in
 * the source tree as the built one is.
 */
export const benchFolder = new URL('../', import.meta.url);
export const peersFolder = new URL('peers/', benchFolder);
/** Scripts for pages, once they are built. */
export const pageFolder = new URL('dist/page/', benchFolder);
/** What takes long and does not change; ignored by git. */
export const cacheFolder = new URL('cache/', benchFolder);
/** Sources of the CPU backend's kernels. */
export const kernelsFolder = new URL('../kernels/cpu/', benchFolder);
/** Figures that are kept, as a path. */
export const resultsFolder = fileURLToPath(new URL('results/', benchFolder));
