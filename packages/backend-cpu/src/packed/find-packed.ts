import type { Plan } from '@stet/backend';
import { requireAddon } from '../addon.js';
import { chooseFast, chooseIsa, type FastOption, type IsaOption, kernelsNumber } from '../options.js';
import { PackedFolder } from './folder.js';
import { packedIdentity } from './identity.js';

export interface PackedFileChoice {
  readonly folder: string;
  readonly plan: Plan;
  readonly weightsKey: string;
  /** `auto` by default. */
  readonly isa?: IsaOption;
  /** `native` by default. */
  readonly fast?: FastOption;
}

/**
 * The file that a load would read, with its size in bytes, or undefined where there is none. A load checks it; this does
 * not. Rejects with `STET_ERR_BACKEND_UNAVAILABLE` where the addon is missing.
 */
export async function packedWeightsFile({
  folder,
  plan,
  weightsKey,
  isa = 'auto',
  fast,
}: PackedFileChoice): Promise<{ readonly path: string; readonly bytes: number } | undefined> {
  const addon = requireAddon();
  const kernels = kernelsNumber(chooseIsa(addon, isa).name, chooseFast(fast));
  const { name } = packedIdentity(addon, kernels, plan, weightsKey);
  const packed = new PackedFolder(folder);
  const file = await packed.open(name);
  if (file === undefined || 'refused' in file) return undefined;
  try {
    return { path: packed.pathOf(name), bytes: (await file.stat()).size };
  } finally {
    await file.close();
  }
}
