import { Console } from 'node:console';
import { measureChaos } from './chaos.js';
import { measureDeterminism } from './determinism.js';
import { measureForward } from './forward.js';
import { measureKernels } from './kernels.js';
import { measureLatency } from './latency.js';
import { measureLoad } from './load.js';
import { measureModels } from './models.js';
import { parseCommandLine, usage } from './options.js';
import { measurePeers } from './peers.js';
import { measureQuality } from './quality.js';
import { machineLoad, writeReadme, writeResult } from './result.js';
import { measureRoofline } from './roofline.js';
import { measureSampler } from './sampler.js';
import { measureStep } from './step.js';

const benchmarks = {
  quality: measureQuality,
  peers: measurePeers,
  determinism: measureDeterminism,
  roofline: measureRoofline,
  kernels: measureKernels,
  forward: measureForward,
  step: measureStep,
  sampler: measureSampler,
  latency: measureLatency,
  models: measureModels,
  load: measureLoad,
  chaos: measureChaos,
};
type Name = keyof typeof benchmarks;

const { name, options } = parseCommandLine(process.argv.slice(2));
if (name === undefined || !Object.hasOwn(benchmarks, name)) {
  console.error(`usage: npm run bench -- ${Object.keys(benchmarks).join('|')} ${usage}`);
  process.exit(2);
}
const loadBefore = machineLoad();
const result = await benchmarks[name as Name](options);
const output = options.json ? new Console(process.stderr) : console;
if (result.tables) output.log(`\n${result.workload}\n\n${result.tables.join('\n\n')}\n`);
else output.table(result.rows);
if (options.save) {
  const { section = name } = result;
  output.log(`saved ${writeResult(section, result, loadBefore)}`);
  writeReadme(section, result, loadBefore);
}
if (result.failure !== undefined) {
  console.error(result.failure);
  process.exitCode = 1;
}
if (options.json) console.log(JSON.stringify(result.json ?? result));
