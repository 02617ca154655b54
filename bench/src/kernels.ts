import { formatsOf, NUMERICS_ID, StetError, weightFormats } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { loadModelPath } from '@stet/model/node';
import type { StudyBackend } from './backends.js';
import { wallClock } from './kernels/clock.js';
import { openTimedWebGpu, type TimedBackends } from './kernels/gpu-clock.js';
import { isUnsupported, type KernelTiming, measureProbe } from './kernels/measure.js';
import { modelProbes } from './kernels/model-probes.js';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import type { BenchResult } from './result.js';
import { rounded } from './stats.js';

/** A device may be a program on the CPU: `seconds` is for all, the rest is what a quick device is asked for. */
const SCALES = {
  quick: { rowCounts: [1, 64], contexts: [128], rounds: 3, targetSeconds: 0.02, seconds: 50 },
  full: { rowCounts: [1, 8, 64, 256], contexts: [128, 512], rounds: 7, targetSeconds: 0.05, seconds: 300 },
} as const;
const SOFTWARE_GPU = /swiftshader|llvmpipe/i;

/**
 * Time of each kind of operation of a model, at its sizes, fast against canonical in turn: in a plan of its own that has it
 * many times, less the time of the same plan without it.
 */
export async function measureKernels(options: BenchOptions): Promise<BenchResult> {
  const { model: path = 'tales', backend: name = 'cpu', quick, threads } = options;
  const scale = SCALES[quick ? 'quick' : 'full'];
  const rowCounts = options.rows ?? scale.rowCounts;
  const rounds = options.rounds ?? scale.rounds;
  const model = await loadModelPath(path, { tokenizer: 'none' });
  await model.close();
  const { plan } = model;
  const formats = quick ? formatsOf(plan) : weightFormats;
  checkRows(rowCounts, plan.contextLength - Math.max(...scale.contexts));
  const backends = await openTimed(name, threads);
  const timings: KernelTiming[] = [];
  const skipped: string[] = [];
  let device = '';
  try {
    const end = performance.now() + scale.seconds * 1000;
    const probes = modelProbes(plan, { formats, contexts: scale.contexts });
    for (const [index, probe] of probes.entries()) {
      const what = `${probe.kernel} (${probe.format})`;
      console.error(what);
      const budgetSeconds = (end - performance.now()) / 1000 / (probes.length - index);
      const { targetSeconds } = scale;
      try {
        const measured = await measureProbe(probe, { backends, rowCounts, rounds, targetSeconds, budgetSeconds });
        device ||= measured.device;
        timings.push(...measured.timings);
        if (measured.skipped) skipped.push(`${what}: ${measured.skipped}`);
      } catch (error) {
        if (!isUnsupported(error)) throw error;
        skipped.push(`${what}: ${error.message}`);
      }
    }
  } finally {
    backends.close();
  }
  for (const line of skipped) console.error(`SKIPPED ${line}`);
  const rows = timings.map(rowOf);
  return {
    workload:
      `the best of up to ${rounds} rounds by ${backends.clock.words}, fast and canonical in turn; ` +
      `GFLOP/s of the products alone, GB/s of what has to be read and written once${softwareNote(device)}` +
      (skipped.length > 0 ? `; ${skipped.length} operations are left out in part, as the results say` : ''),
    section: `kernels-${name}`,
    model: model.name,
    fingerprint: NUMERICS_ID,
    device,
    rows,
    tables: [markdownTable(rows)],
    json: { backend: name, model: model.name, clock: backends.clock.words, rounds, kernels: timings, skipped },
  };
}

/** Tests of kernels are no part of what is timed: `stet doctor` and every other load make them. */
async function openTimed(name: StudyBackend, threads: number): Promise<TimedBackends> {
  if (name !== 'cpu' && name !== 'webgpu')
    throw new StetError('STET_ERR_UNSUPPORTED', `kernels are timed with --backend cpu or webgpu, not ${name}`);
  if (name === 'webgpu') return openTimedWebGpu();
  return { create: createCpuBackend({ threads, selfTest: false }), clock: wallClock, close: () => {} };
}

function checkRows(rowCounts: readonly number[], most: number): void {
  const tooMany = rowCounts.find((rows) => rows > most);
  if (tooMany !== undefined) throw new Error(`--rows: the context of the model has room for ${most}, not ${tooMany}`);
}

function softwareNote(device: string): string {
  return SOFTWARE_GPU.test(device)
    ? '. The GPU is a program on the CPU: its figures only say that nothing is absurd'
    : '';
}

function rowOf({ kernel, format, rows, work, fast, canonical }: KernelTiming) {
  const micros = (seconds: number) => (seconds > 0 ? rounded(seconds * 1e6, 1) : 'disturbed');
  const rate = (amount: number, seconds: number) =>
    amount > 0 && seconds > 0 ? Number((amount / seconds / 1e9).toPrecision(3)) : '–';
  return {
    ...{ kernel, format, rows },
    'fast µs': micros(fast.best),
    'canonical µs': micros(canonical.best),
    'fast GFLOP/s': rate(work.operations, fast.best),
    'canonical GFLOP/s': rate(work.operations, canonical.best),
    'fast GB/s': rate(work.bytes, fast.best),
    'canonical GB/s': rate(work.bytes, canonical.best),
  };
}
