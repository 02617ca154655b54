import { writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { writeSection } from './models/markdown.js';

/** What a benchmark found, with all that is needed to read it later. */
export interface BenchResult {
  /** Its results and its section of the README have this name; that of the benchmark by default. */
  readonly section?: string;
  readonly workload: string;
  readonly model: string;
  readonly fingerprint: string;
  readonly device: string;
  readonly rows: readonly Readonly<Record<string, string | number>>[];
  /** Tables in Markdown for the benchmark's section of the README, where it has one. */
  readonly tables?: readonly string[];
  /** All figures, for programs: the last line of `--json`, and in the results. */
  readonly json?: object;
  /** What was not as it must be, where a benchmark checks what it gets; the program then ends with 1. */
  readonly failure?: string;
}

/** Runnable processes of the last minute. Taken before a benchmark, it says what else the machine had to do. */
export function machineLoad(): number {
  return Number(loadavg()[0]!.toFixed(2));
}

/** Writes bench/results/NAME.json; slow results are kept like quick ones. `loadBefore`: see {@link machineLoad}. */
export function writeResult(name: string, result: BenchResult, loadBefore: number): string {
  const file = new URL(`../results/${name}.json`, import.meta.url);
  const machine = { cpu: cpus()[0]?.model.trim(), cores: cpus().length, node: process.version, loadBefore };
  const date = today();
  const { json, tables: _, section: __, failure: ___, ...told } = result;
  writeFileSync(
    file,
    `${JSON.stringify({ benchmark: name, date, machine, ...told, ...(json && { figures: json }) }, null, 2)}\n`,
  );
  return `bench/results/${name}.json`;
}

/** Replaces the section of bench/README.md that the benchmark owns, between `<!-- NAME:begin -->` and `<!-- NAME:end -->`. */
export function writeReadme(name: string, result: BenchResult, loadBefore: number): void {
  const { tables, workload, model, fingerprint, device } = result;
  if (!tables) return;
  const heading = `${today()}, ${model} (${fingerprint}) on ${cpus()[0]?.model.trim()}, ${device}; load before: ${loadBefore}.`;
  writeSection(new URL('../README.md', import.meta.url), name, [heading, `${workload}.`, ...tables].join('\n\n'));
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}
