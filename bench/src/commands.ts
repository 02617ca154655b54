import { measureChaos } from './chaos.js';
import { measureKernels } from './kernels.js';
import { measureLoad } from './load.js';
import { measureModels } from './models.js';
import type { BenchOptions } from './options.js';
import { measurePeers } from './peers.js';
import { measureQuality } from './quality.js';
import type { BenchResult } from './result.js';
import { measureRoofline } from './roofline.js';
import { measureSampler } from './sampler.js';
import { scenarios } from './scenarios/index.js';
import { measureStep } from './step.js';
import type { Scenario } from './study/scenario.js';
import type { StudySize } from './study/study.js';

/** Benchmarks of one part, each with a harness of its own. */
export const benchmarks: Readonly<Record<string, (options: BenchOptions) => Promise<BenchResult>>> = {
  quality: measureQuality,
  peers: measurePeers,
  roofline: measureRoofline,
  kernels: measureKernels,
  step: measureStep,
  sampler: measureSampler,
  models: measureModels,
  load: measureLoad,
  chaos: measureChaos,
};

/** Some scenarios in one run with one report. */
export interface StudyCommand {
  readonly scenarios: readonly Scenario[];
  readonly size: StudySize;
}

/** `quick` and `figures` are all scenarios; the name of a scenario is that one. */
export function studyCommand(name: string, { quick }: BenchOptions): StudyCommand | undefined {
  if (name === 'quick') return { scenarios, size: 'quick' };
  const size = quick ? 'quick' : 'full';
  if (name === 'figures') return { scenarios, size };
  const scenario = scenarios.find((one) => one.name === name);
  return scenario && { scenarios: [scenario], size };
}

export const commandNames: readonly string[] = [
  'quick',
  'figures',
  ...scenarios.map(({ name }) => name),
  ...Object.keys(benchmarks),
  'report',
  'compare',
];
