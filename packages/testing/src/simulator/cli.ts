import { parseArgs } from 'node:util';
import { CANARIES, type Canary } from './canary.js';
import { describeFailure } from './describe-failure.js';
import { MISMATCH_WORKLOAD, mismatchTable } from './mismatch-table.js';
import { simulate } from './simulate.js';
import { addTally, emptyTally, type Tally } from './tally.js';

/** Where the command line writes: results, and progress that is no part of them. */
export interface SimulatorOutput {
  line(text: string): void;
  progress(text: string): void;
}

export const USAGE = `npm run sim -- [options]
  --seeds N     run N seeds, 100 by default
  --seed S      run seed S alone, or N seeds from S on
  --canary      plant a bug that must be found: a verifier that leaves candidate K/V in place
  --bug NAME    plant another one: ${CANARIES.join(', ')}
  --table       print what injected mismatches cost, and run no seeds
  --trace       print everything that happens
  --json        print a last line {seeds, requests, violations, firstSeed}`;

interface Options {
  readonly firstSeed: number;
  readonly seedCount: number;
  readonly canary: Canary | undefined;
  readonly output: 'text' | 'json';
  readonly mode: 'seeds' | 'table';
  readonly detail: 'summary' | 'trace';
}

/** Failures that are printed in full. */
const MOST_PRINTED = 10;

/** The command line. Resolves with the exit code: 0, 1 after violations, 2 for options it does not know. */
export async function runSimulator(args: readonly string[], output: SimulatorOutput): Promise<0 | 1 | 2> {
  let options: Options;
  try {
    options = parseOptions(args);
  } catch (error) {
    output.line(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    return 2;
  }
  if (options.mode === 'table') return printTable(options, output);
  return runSeeds(options, output);
}

function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string' },
      seed: { type: 'string' },
      bug: { type: 'string' },
      canary: { type: 'boolean' },
      table: { type: 'boolean' },
      trace: { type: 'boolean' },
      json: { type: 'boolean' },
    },
  });
  return {
    firstSeed: integer('--seed', values.seed ?? '1', 0),
    seedCount: integer('--seeds', values.seeds ?? (values.seed === undefined ? '100' : '1'), 1),
    canary: values.bug === undefined ? (values.canary ? CANARIES[0] : undefined) : canaryNamed(values.bug),
    output: values.json ? 'json' : 'text',
    mode: values.table ? 'table' : 'seeds',
    detail: values.trace ? 'trace' : 'summary',
  };
}

function integer(name: string, text: string, least: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value >= 2 ** 32)
    throw new Error(`${name} is ${text}, expected an integer from ${least} to 2^32 - 1`);
  return value;
}

function canaryNamed(name: string): Canary {
  const canary = CANARIES.find((one) => one === name);
  if (!canary) throw new Error(`there is no bug named ${name}`);
  return canary;
}

async function runSeeds(options: Options, output: SimulatorOutput): Promise<0 | 1> {
  const { firstSeed, seedCount, canary } = options;
  const lastSeed = firstSeed + seedCount - 1;
  output.line(seedCount === 1 ? `seed ${firstSeed}` : `seeds ${firstSeed} to ${lastSeed}`);
  const total = emptyTally();
  const failed: number[] = [];
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    output.progress(`seed ${seed}, ${total.requests} requests, ${failed.length} violations`);
    const onTrace = options.detail === 'trace' ? { onTrace: output.line } : {};
    const report = await simulate(seed, { ...(canary && { canary }), ...onTrace });
    addTally(total, report.tally);
    if (seedCount === 1) output.line(`options ${JSON.stringify(report.swarm)}\ndigest ${report.digest}`);
    if (!report.failure) continue;
    failed.push(seed);
    if (failed.length <= MOST_PRINTED) output.line(describeFailure(report, canary));
  }
  for (const line of describeTally(total)) output.line(line);
  output.line(`${seedCount} seeds, ${total.requests} requests, ${failed.length} violations`);
  if (options.output === 'json') {
    const firstFailed = failed[0] ?? null;
    const result = { seeds: seedCount, requests: total.requests, violations: failed.length, firstSeed: firstFailed };
    output.line(JSON.stringify(result));
  }
  return failed.length > 0 ? 1 : 0;
}

function describeTally(tally: Tally): string[] {
  return Object.entries(tally).map(([name, count]) => {
    const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    return `  ${words.padEnd(22)} ${String(count).padStart(9)}`;
  });
}

async function printTable(options: Options, output: SimulatorOutput): Promise<0> {
  const rows = await mismatchTable();
  const { sequenceCount, outputTokens, windowTokens } = MISMATCH_WORKLOAD;
  const workload = `${sequenceCount} sequences of ${outputTokens} tokens at once, windows of ${windowTokens}`;
  output.line(`injected mismatches: ${workload}; every answer equals the oracle's`);
  const titles = ['rate', 'injected', 'windows', 'rollbacks', 'recomputed', 'committed', 'forwards', 'tokens/forward'];
  output.line(titles.map((title) => title.padStart(title.length + 2)).join(''));
  for (const row of rows) {
    const { injected, windows, rollbacks, recomputedTokens, committedTokens, forwards } = row;
    const counts = [injected, windows, rollbacks, recomputedTokens, committedTokens, forwards];
    const cells = [`${row.rate * 100} %`, ...counts, row.tokensPerForward.toFixed(2)];
    output.line(cells.map((cell, i) => String(cell).padStart(titles[i]!.length + 2)).join(''));
  }
  if (options.output === 'json') output.line(JSON.stringify(rows));
  return 0;
}
