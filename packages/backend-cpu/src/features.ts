import { type IsaName, lookUpAddon, type NativeIsa } from './addon.js';
import { chooseIsa, chooseThreads } from './options.js';

export type CpuFeatures =
  | { readonly available: false; readonly reason: string }
  | {
      readonly available: true;
      /** From the plainest to the best. */
      readonly isas: readonly NativeIsa[];
      /** What `isa: 'auto'` takes. */
      readonly chosen: IsaName;
      /** The default of `threads`. */
      readonly threads: number;
      /** That built the addon. */
      readonly compiler: string;
    };

/** What the CPU backend finds on this machine, for `stet doctor`. Never throws. */
export function cpuFeatures(): CpuFeatures {
  const lookup = lookUpAddon();
  if (lookup.kind === 'unavailable') return { available: false, reason: lookup.reason };
  const { isas, compiler } = lookup.addon.features();
  return {
    available: true,
    isas,
    chosen: chooseIsa(lookup.addon, 'auto').name,
    threads: chooseThreads(undefined),
    compiler,
  };
}

/** Bytes that all CPU backends of this process hold outside JavaScript: 0 when every one is closed. */
export function liveBytes(): number {
  const lookup = lookUpAddon();
  return lookup.kind === 'available' ? lookup.addon.liveBytes() : 0;
}
