import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Plan } from '@stet/backend';
import type { PackedOutcome } from '@stet/backend-cpu';
import { weightsKey } from '@stet/engine';
import { formatBytes } from './units.js';

/** Where the CPU backend keeps packed weights, so that the next start is quick. */
export function packedCacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  return join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'stet', 'packed');
}

export interface PackedFile {
  readonly path: string;
  readonly bytes: number;
}

/** The file that the CPU backend would read for a plan, or undefined where there is none or no such backend. */
export async function findPacked(digest: string, plan: Plan): Promise<PackedFile | undefined> {
  const { cpuFeatures, packedWeightsFile } = await import('@stet/backend-cpu');
  if (!cpuFeatures().available) return undefined;
  const folder = packedCacheFolder(process.env);
  return packedWeightsFile({ folder, plan, weightsKey: weightsKey({ digest, plan }) });
}

/** What became of packed weights; undefined: they were not asked to be kept. */
export function describePacked(outcome: PackedOutcome | undefined): string {
  if (!outcome) return 'off';
  switch (outcome.kind) {
    case 'read':
      return `read ${formatBytes(outcome.bytes)} of ${outcome.path}`;
    case 'written': {
      const why = outcome.replaced === undefined ? '' : `, in place of one that was not used: ${outcome.replaced}`;
      return `written ${formatBytes(outcome.bytes)} to ${outcome.path}${why}`;
    }
    case 'skipped':
      return `not kept: ${outcome.reason}`;
  }
}
