import { assert, StetError } from '@stet/backend';
import type { FileSource } from './source.js';

/** Files in memory, for browsers and tests. */
export function memorySource(files: Readonly<Record<string, Uint8Array>>, location = 'memory'): FileSource {
  const byName = new Map(Object.entries(files));
  const find = (name: string): Uint8Array => {
    const bytes = byName.get(name);
    if (!bytes) throw new StetError('STET_ERR_MODEL_NOT_FOUND', `${location} has no file ${name}`);
    return bytes;
  };
  return {
    location,
    list: async () => [...byName.keys()],
    size: async (name) => find(name).length,
    read: async (name, start, end) => {
      const bytes = find(name);
      assert(
        start >= 0 && start <= end && end <= bytes.length,
        `read ${start}..${end} of ${name}, ${bytes.length} bytes`,
      );
      return bytes.slice(start, end);
    },
    close: async () => byName.clear(),
  };
}
