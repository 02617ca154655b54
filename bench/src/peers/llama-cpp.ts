import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { assertNever } from '@stet/backend';
import type { Contender } from './contender.js';
import type { Workload } from './workloads.js';

const run = promisify(execFile);
/** A program that takes longer is ended. */
const RUN_MS = 600_000;
const TRIES = 3;
const PROGRAMS = ['llama-bench', 'llama-batched-bench'];

export interface LlamaCppOptions {
  /** The folder with llama-bench and llama-batched-bench. */
  readonly folder: string;
  /** The file that they run. */
  readonly model: string;
  /** How the file is called in tables. */
  readonly title: string;
  readonly threads: number;
}

/**
 * llama.cpp's own programs: llama-bench for one stream, llama-batched-bench for several. They make their own tokens of the
 * same numbers; each run is a process, which warms up by itself.
 */
export function llamaCpp({ folder, model, title, threads }: LlamaCppOptions): Contender {
  for (const file of [...PROGRAMS.map((name) => join(folder, name)), model])
    if (!existsSync(file)) throw new Error(`there is no ${file}`);
  const program = async (name: string, args: readonly string[]): Promise<string> => {
    try {
      const { stdout } = await run(join(folder, name), ['-m', model, '-t', `${threads}`, ...args], { timeout: RUN_MS });
      return stdout;
    } catch (error) {
      const { signal, code, stderr = '' } = error as { signal?: string; code?: number; stderr?: string };
      const said = stderr.trim().split('\n').at(-1);
      throw new Error(`${name} on ${title} ended with ${signal ?? code}: ${said}`, { cause: error });
    }
  };
  return {
    name: `llama.cpp ${title}`,
    kind: 'peer',
    run: async (workload) =>
      workload.prompts.length === 1
        ? parseLlamaBench(await program('llama-bench', oneStreamArgs(workload)))
        : parseBatchedBench(await untilItSpeaks(() => program('llama-batched-bench', batchedArgs(workload))), workload),
  };
}

/**
 * The first output that has a line of JSON, or the last of {@link TRIES}: llama.cpp's log is written by a thread that nothing
 * waits for at the end of a program (its issue 22142), so a busy machine loses lines.
 */
export async function untilItSpeaks(runOnce: () => Promise<string>): Promise<string> {
  let stdout = '';
  for (let tries = 0; tries < TRIES && jsonLines(stdout).length === 0; tries++) stdout = await runOnce();
  return stdout;
}

const LLAMA_BENCH = ['-r', '1', '-o', 'jsonl'];

function oneStreamArgs({ kind, prompts: [prompt], outputTokens }: Workload): string[] {
  const promptTokens = `${prompt!.length}`;
  switch (kind) {
    case 'prefill':
      return [...LLAMA_BENCH, '-p', promptTokens, '-n', '0'];
    case 'decode':
      return [...LLAMA_BENCH, '-p', '0', '-n', `${outputTokens}`, '-d', promptTokens];
    default:
      return assertNever(kind);
  }
}

function batchedArgs({ prompts, outputTokens }: Workload): string[] {
  const [streams, promptTokens] = [prompts.length, prompts[0]!.length];
  const shape = ['-npp', `${promptTokens}`, '-ntg', `${outputTokens}`, '-npl', `${streams}`];
  return ['-c', `${streams * (promptTokens + outputTokens)}`, ...shape, '--output-format', 'jsonl'];
}

/** Tokens per second of the only test of a run of llama-bench with `-o jsonl`. */
export function parseLlamaBench(stdout: string): number {
  const [test, ...others] = jsonLines(stdout);
  if (!test || others.length > 0) throw new Error(`llama-bench printed ${stdout.slice(0, 200)}, expected one test`);
  return positive('llama-bench', test.avg_ts);
}

/** Tokens per second that llama-batched-bench read from, or wrote to, so many streams, with `--output-format jsonl`. */
export function parseBatchedBench(stdout: string, { kind, prompts }: Pick<Workload, 'kind' | 'prompts'>): number {
  const streams = prompts.length;
  const line = jsonLines(stdout).find((entry) => entry.pl === streams);
  if (!line) throw new Error(`llama-batched-bench printed ${stdout.slice(0, 200)}, expected ${streams} streams`);
  return positive('llama-batched-bench', kind === 'prefill' ? line.speed_pp : line.speed_tg);
}

function jsonLines(stdout: string): Record<string, unknown>[] {
  const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

function positive(program: string, value: unknown): number {
  if (typeof value !== 'number' || !(value > 0)) throw new Error(`${program} gave a rate of ${value}`);
  return value;
}
