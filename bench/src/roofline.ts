import { isStetError, NUMERICS_ID, type Plan, type Step, type WeightFormat, weightFormats } from '@stet/backend';
import { loadModelPath } from '@stet/model/node';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import type { BenchResult } from './result.js';
import { type LinearGroup, linearGroups } from './roofline/groups.js';
import { bestLimits, createMachineProbe, type Limits, type MachineLimits } from './roofline/machine.js';
import { attentionProbe, linearProbe } from './roofline/probe-plan.js';
import { closeProbes, fillContext, openProbes, partSeconds, probeBatch } from './roofline/probes.js';
import { attentionWork, linearWork, shareOf, type Work } from './roofline/share.js';
import { rounded } from './stats.js';

const MAX_ROWS = 256;
const LINEAR_ROWS = [1, 8, 16, MAX_ROWS] as const;
const CONTEXT = 512;
/** Room for the last block of a sequence. */
const POSITIONS_PER_BLOCK = 16;
/** Sequences of rows at a context of {@link CONTEXT}. */
const ATTENTION_SHAPES = [
  { sequences: 1, rows: 1 },
  { sequences: 16, rows: 1 },
  { sequences: 1, rows: MAX_ROWS },
] as const;
const SCHEDULES = ['fast', 'canonical'] as const;
const ROUNDS = { quick: 3, full: 9 } as const;

/** One line of the table before the limits are known. */
interface Timed {
  readonly kernel: string;
  readonly format: string;
  readonly schedule: keyof Step;
  readonly rows: string;
  /** Of all times. */
  readonly seconds: number;
  readonly times: number;
  readonly device: string;
  readonly work: (limits: Limits) => Work;
}

/**
 * What share of this machine's bandwidth or arithmetic each linear and the attention of a model reach, as the backend runs them:
 * on all threads, with inputs prepared and threads waited for. A group of linears is repeated until it
 * has as many weights as the model, so that they come from as far as the model's do. Limits and kernels are measured in turn.
 */
export async function measureRoofline({
  model: path = 'tales',
  quick,
  threads,
  rounds: asked,
}: BenchOptions): Promise<BenchResult> {
  const model = await loadModelPath(path, { tokenizer: 'none' });
  await model.close();
  const { plan, name } = model;
  const rounds = asked ?? ROUNDS[quick ? 'quick' : 'full'];
  const groups = linearGroups(plan);
  const values = groups.reduce((sum, group) => sum + valuesOf(group) * group.count, 0);
  const machine = await createMachineProbe(threads, values);
  const measured: MachineLimits[] = [];
  const timed: Timed[] = [];
  const skipped: Record<string, string> = {};
  try {
    for (const format of weightFormats) {
      try {
        for (const group of groups) {
          console.error(`${format} ${group.name}`);
          timed.push(...(await timeLinears({ plan, group, format, values, threads, rounds })));
          measured.push(await machine.measure());
        }
      } catch (error) {
        if (!isStetError(error) || error.code !== 'STET_ERR_UNSUPPORTED') throw error;
        skipped[format] = error.message;
        console.error(`SKIPPED ${format}: ${error.message}`);
      }
    }
    console.error('attention');
    timed.push(...(await timeAttention(plan, threads, rounds)));
    measured.push(await machine.measure());
  } finally {
    await machine.close();
  }
  const limits = bestLimits(measured);
  const rows = timed.map((one) => rowOf(one, limits.all));
  const limitRows = [limits.one, limits.all].map(limitRow);
  return {
    workload:
      `the best of ${rounds} rounds on ${threads} threads, limits measured in turn over ${mebibytes(values)} MiB; ` +
      `attention at a context of ${CONTEXT}`,
    model: name,
    fingerprint: NUMERICS_ID,
    device: timed[0]!.device,
    rows,
    tables: [markdownTable(limitRows), markdownTable(rows)],
    json: { model: name, threads, rounds, limits, kernels: rows, skipped },
  };
}

interface LinearOptions {
  readonly plan: Plan;
  readonly group: LinearGroup;
  readonly format: WeightFormat;
  /** Weights of the whole model. */
  readonly values: number;
  readonly threads: number;
  readonly rounds: number;
}

async function timeLinears({ plan, group, format, values, threads, rounds }: LinearOptions): Promise<Timed[]> {
  const copies = Math.max(1, Math.round(values / valuesOf(group)));
  const probes = await openProbes({
    full: linearProbe(plan, group, format, copies),
    empty: linearProbe(plan, group, format, 0),
    threads,
    maxRows: MAX_ROWS,
    positions: MAX_ROWS,
  });
  try {
    const bytes = probes.full.info.memory.weightBytes - probes.empty.info.memory.weightBytes;
    const weights = { count: valuesOf(group) * copies, bytes };
    const timed: Timed[] = [];
    for (const rows of LINEAR_ROWS) {
      // Rows of one sequence cost a linear what rows of several do.
      const batch = probeBatch(1, rows, 0);
      for (const schedule of SCHEDULES) {
        timed.push({
          kernel: `${group.name}: ${group.columns} → ${group.rows.join(' + ')}`,
          format,
          schedule,
          rows: `${rows}`,
          times: copies,
          device: probes.full.info.device,
          seconds: await partSeconds(probes, schedule, batch, rounds),
          work: (limits) => linearWork(format, schedule, weights, rows, limits),
        });
      }
    }
    return timed;
  } finally {
    await closeProbes(probes);
  }
}

async function timeAttention(plan: Plan, threads: number, rounds: number): Promise<Timed[]> {
  const headCount = plan.ops.reduce((most, op) => (op.kind === 'attention' ? Math.max(most, op.headCount) : most), 0);
  const timed: Timed[] = [];
  for (const { sequences, rows } of ATTENTION_SHAPES) {
    const start = Math.min(CONTEXT, plan.contextLength - rows);
    const probes = await openProbes({
      full: attentionProbe(plan, headCount, 'all'),
      empty: attentionProbe(plan, headCount, 'without attention'),
      threads,
      maxRows: MAX_ROWS,
      positions: sequences * (start + rows + POSITIONS_PER_BLOCK),
    });
    try {
      for (const schedule of SCHEDULES) {
        await fillContext(probes, schedule, { sequences, start, rows });
        timed.push({
          kernel: `attention of ${headCount} heads of ${plan.headSize}, ${plan.kvHeadCount} of K/V`,
          format: 'K/V',
          schedule,
          rows: sequences === 1 ? `${rows}` : `${sequences} sequences`,
          times: plan.layerCount,
          device: probes.full.info.device,
          seconds: await partSeconds(probes, schedule, probeBatch(sequences, rows, start), rounds),
          work: () => attentionWork(plan, headCount, { sequences, rows, start }),
        });
      }
    } finally {
      await closeProbes(probes);
    }
  }
  return timed;
}

function rowOf({ kernel, format, schedule, rows, seconds, times, work }: Timed, limits: Limits) {
  const place = { kernel, format, schedule, rows };
  if (seconds <= 0)
    return { ...place, 'µs each': 'disturbed', 'GB/s': '–', GOPS: '–', bound: '–', 'share of it, %': '–' };
  const { gigabytesPerSecond, gigaOperationsPerSecond, bound, share } = shareOf(work(limits), seconds, limits);
  return {
    ...place,
    'µs each': rounded((seconds / times) * 1e6, 1),
    'GB/s': rounded(gigabytesPerSecond, 1),
    GOPS: Math.round(gigaOperationsPerSecond),
    bound,
    'share of it, %': rounded(share * 100, 1),
  };
}

function limitRow({ threads, bytesPerSecond, f32, bf16, int8, vnni }: Limits) {
  const giga = (value: number): number => Math.round(value / 1e9);
  return {
    threads,
    'read GB/s': rounded(bytesPerSecond / 1e9, 1),
    'f32 GOPS': giga(f32),
    'bf16 GOPS': giga(bf16),
    'int8 GOPS': giga(int8),
    'int8 dot alone': giga(vnni),
  };
}

function valuesOf({ columns, rows }: LinearGroup): number {
  return columns * rows.reduce((sum, one) => sum + one, 0);
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
