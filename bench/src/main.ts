import { measureForward } from './forward.js';
import { measureLatency } from './latency.js';
import { measureQuality } from './quality.js';
import { machineLoad, writeResult } from './result.js';
import { measureSampler } from './sampler.js';
import { measureStep } from './step.js';

const benchmarks = {
  quality: measureQuality,
  forward: measureForward,
  step: measureStep,
  sampler: measureSampler,
  latency: measureLatency,
};
type Name = keyof typeof benchmarks;

const name = process.argv[2];
if (name === undefined || !Object.hasOwn(benchmarks, name)) {
  console.error(`usage: npm run bench -- ${Object.keys(benchmarks).join('|')} [--save]`);
  process.exit(2);
}
const loadBefore = machineLoad();
const result = await benchmarks[name as Name]();
console.table(result.rows);
if (process.argv.includes('--save')) console.log(`saved ${writeResult(name, result, loadBefore)}`);
