import { assert, type Backend, type Batch, isStetError, OUTPUT_ARGMAX, type Step } from '@stet/backend';
import { createCpuBackend } from '@stet/backend-cpu';
import { createEngine, type StetEngine } from '@stet/engine';
import { joinBatches, rowsOf } from '../batches.js';
import type { FormatCase } from '../formats.js';
import type { Contender } from './contender.js';
import { type RunTimes, rateOf } from './rates.js';
import type { Workload } from './workloads.js';

/** A model in one format: an engine, and its backend for runs that bypass it. */
export interface StetModel {
  readonly title: string;
  readonly engine: StetEngine;
  readonly backend: Backend;
}

export interface StetModels {
  readonly opened: readonly StetModel[];
  /** Formats that cannot be had here, and why. */
  readonly skipped: readonly { readonly title: string; readonly reason: string }[];
}

/** Opens the model in every one of the formats that runs here. Deterministic requests run canonical rows alone, ordinary ones fast rows. */
export async function openStetModels(path: string, cases: readonly FormatCase[], threads: number): Promise<StetModels> {
  const opened: StetModel[] = [];
  const skipped: { title: string; reason: string }[] = [];
  for (const one of cases) {
    try {
      opened.push(await openStetModel(path, one, threads));
    } catch (error) {
      if (!isStetError(error) || error.code !== 'STET_ERR_UNSUPPORTED') throw error;
      skipped.push({ title: one.title, reason: error.message });
    }
  }
  return { opened, skipped };
}

async function openStetModel(path: string, { title, format }: FormatCase, threads: number): Promise<StetModel> {
  let backend: Backend | undefined;
  const engine = await createEngine({
    model: path,
    format,
    backend: async (load) => {
      backend = await createCpuBackend({ threads })(load);
      return backend;
    },
    policy: 'direct',
    // Prompts come again in every round; nothing of them may be left.
    prefixCache: 'off',
  });
  assert(backend, 'an engine has a backend');
  return { title, engine, backend };
}

const SCHEDULES = ['fast', 'canonical'] as const satisfies readonly (keyof Step)[];

/** Both schedules of a model, through the engine. */
export function engineContenders({ title, engine }: StetModel): Contender[] {
  return SCHEDULES.map((schedule) => ({
    name: engineName(title, schedule),
    kind: 'ours',
    run: async (workload) => rateOf(workload, await generateAll(engine, workload, schedule)),
  }));
}

/** Both schedules of a model, by the backend alone. */
export function forwardContenders({ title, backend }: StetModel): Contender[] {
  return SCHEDULES.map((schedule) => ({
    name: `${engineName(title, schedule)}, forward alone`,
    kind: 'ours',
    run: async (workload) => rateOf(workload, await forwardAll(backend, workload, schedule)),
  }));
}

export function engineName(title: string, schedule: keyof Step): string {
  return `stet ${title} ${schedule}`;
}

async function generateAll(engine: StetEngine, workload: Workload, schedule: keyof Step): Promise<RunTimes> {
  const startMs = performance.now();
  const arrivals = await Promise.all(
    workload.prompts.map(async (promptTokens) => {
      const times: number[] = [];
      const request = { promptTokens, maxTokens: workload.outputTokens, temperature: 0, seed: 0, ignoreEos: true };
      for await (const event of engine.generate({ ...request, deterministic: schedule === 'canonical' })) {
        if (event.type === 'commit') for (const _ of event.tokens) times.push(performance.now());
      }
      return times;
    }),
  );
  return { startMs, arrivals };
}

/** The blocks of an engine that has nothing to do are free. */
async function forwardAll(backend: Backend, workload: Workload, schedule: keyof Step): Promise<RunTimes> {
  const { prompts, outputTokens } = workload;
  const { blockSize, maxRows } = backend.info;
  const blocksEach = Math.ceil((prompts[0]!.length + outputTokens) / blockSize);
  const rows = prompts.map((prompt) => [...prompt]);
  const argmax = async (batch: Batch): Promise<readonly number[]> =>
    Array.from((await backend.forward({ [schedule]: batch }))[schedule]!.argmax);
  const firstBlock = (s: number): number => 1 + s * blocksEach;
  const startMs = performance.now();
  for (const step of prefillSteps(prompts, maxRows)) {
    const batches = step.map(({ s, start, count }) => {
      const isLast = start + count === prompts[s]!.length;
      return wanting(rowsOf(rows[s]!, start, count, firstBlock(s), blockSize), isLast ? [count - 1] : []);
    });
    const next = await argmax(joinBatches(batches));
    const ending = step.filter(({ s, start, count }) => start + count === prompts[s]!.length);
    for (const [i, { s }] of ending.entries()) rows[s]!.push(next[i]!);
  }
  const times = [performance.now()];
  while (times.length < outputTokens) {
    const batches = rows.map((tokens, s) =>
      wanting(rowsOf(tokens, tokens.length - 1, 1, firstBlock(s), blockSize), [0]),
    );
    const next = await argmax(joinBatches(batches));
    for (const [s, tokens] of rows.entries()) tokens.push(next[s]!);
    times.push(performance.now());
  }
  return { startMs, arrivals: prompts.map(() => times) };
}

interface Chunk {
  readonly s: number;
  readonly start: number;
  readonly count: number;
}

/** Prompts in steps of at most `maxRows` rows, each filled up with what comes next. */
export function prefillSteps(prompts: readonly { readonly length: number }[], maxRows: number): Chunk[][] {
  const steps: Chunk[][] = [];
  let free = 0;
  for (const [s, { length }] of prompts.entries()) {
    for (let start = 0; start < length; ) {
      if (free === 0) {
        steps.push([]);
        free = maxRows;
      }
      const count = Math.min(free, length - start);
      steps.at(-1)!.push({ s, start, count });
      start += count;
      free -= count;
    }
  }
  return steps;
}

function wanting(batch: Batch, outputRows: readonly number[]): Batch {
  return {
    ...batch,
    outputRows: Int32Array.from(outputRows),
    outputKinds: new Uint8Array(outputRows.length).fill(OUTPUT_ARGMAX),
  };
}
