export { CANARIES, type Canary } from './canary.js';
export { describeFailure } from './describe-failure.js';
export { MISMATCH_RATES, MISMATCH_WORKLOAD, type MismatchRow, mismatchTable } from './mismatch-table.js';
export { plainLogprob, plainSample } from './plain-sampler.js';
export { type SimulationFailure, type SimulationReport, type SimulationSettings, simulate } from './simulate.js';
export type { Swarm } from './swarm.js';
export { addTally, emptyTally, type Tally } from './tally.js';
