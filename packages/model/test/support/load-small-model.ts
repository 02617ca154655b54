import { type LoadedModel, type LoadOptions, loadModel, memorySource } from '@stet/model';
import { smallModelFiles } from './small-model.js';

/** Loads the small model with some of its files changed, or removed where undefined. */
export function loadSmallModel(
  change: Record<string, Uint8Array | undefined> = {},
  options: LoadOptions = {},
): Promise<LoadedModel> {
  const files = Object.entries({ ...smallModelFiles(), ...change }).filter(
    (entry): entry is [string, Uint8Array] => entry[1] !== undefined,
  );
  return loadModel(memorySource(Object.fromEntries(files), 'memory/small'), options);
}
