import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Models with reference answers that stand beside the project and are not part of it. */
const shared = process.env.STET_SHARED ?? fileURLToPath(new URL('../../../../../shared', import.meta.url));

export const hasSharedModels = existsSync(join(shared, 'models'));

/** Appended to a suite's name, so that a skipped run says why. */
export const needsSharedModels = hasSharedModels ? '' : ' (skipped: no folder of shared models, set STET_SHARED)';

export function sharedModel(...parts: string[]): string {
  return join(shared, 'models', ...parts);
}

export function readSharedJson<T>(...parts: string[]): T {
  return JSON.parse(readFileSync(sharedModel(...parts), 'utf8'));
}
