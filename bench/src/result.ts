import { writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';

/** What a benchmark found, with all that is needed to read it later. */
export interface BenchResult {
  readonly workload: string;
  readonly model: string;
  readonly fingerprint: string;
  readonly device: string;
  readonly rows: readonly Readonly<Record<string, string | number>>[];
}

/** Runnable processes of the last minute. Taken before a benchmark, it says what else the machine had to do. */
export function machineLoad(): number {
  return Number(loadavg()[0]!.toFixed(2));
}

/** Writes bench/results/NAME.json; slow results are kept like quick ones. `loadBefore`: see {@link machineLoad}. */
export function writeResult(name: string, result: BenchResult, loadBefore: number): string {
  const file = new URL(`../results/${name}.json`, import.meta.url);
  const machine = { cpu: cpus()[0]?.model.trim(), cores: cpus().length, node: process.version, loadBefore };
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(file, `${JSON.stringify({ benchmark: name, date, machine, ...result }, null, 2)}\n`);
  return `bench/results/${name}.json`;
}
