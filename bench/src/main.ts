import { parseArgs } from 'node:util';
import { measureForward } from './forward.js';
import { measureLatency } from './latency.js';
import { measureModels } from './models.js';
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
  models: measureModels,
};
type Name = keyof typeof benchmarks;

const { values: options, positionals } = parseArgs({
  options: { save: { type: 'boolean' }, models: { type: 'string' } },
  allowPositionals: true,
});
const name = positionals[0];
if (name === undefined || !Object.hasOwn(benchmarks, name)) {
  console.error(`usage: npm run bench -- ${Object.keys(benchmarks).join('|')} [--save] [--models FOLDER]`);
  process.exit(2);
}
const loadBefore = machineLoad();
const result = await benchmarks[name as Name](options);
console.table(result.rows);
if (options.save) console.log(`saved ${writeResult(name, result, loadBefore)}`);
