import { buildState } from '../../scripts/build-native.mjs';
import { cpuFeatures, type IsaName } from '../../src/index.js';

const build = buildState();
if (build.kind === 'stale') {
  throw new Error('build/stet_cpu.node does not belong to these sources: run `npm run build` before the tests');
}

const features = cpuFeatures();

/** Instruction sets to test; none where this machine cannot build the addon. */
export const isas: readonly IsaName[] = features.available
  ? features.isas.filter((isa) => isa.available).map((isa) => isa.name)
  : [];

/** Why the suites that need the addon are skipped, if they are. */
export const withoutAddon = features.available ? undefined : features.reason;
