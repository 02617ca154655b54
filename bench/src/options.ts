import { parseArgs } from 'node:util';
import { type FastMode, fastModes, type StudyBackend, studyBackends } from './backends.js';

/** What follows the name of a benchmark. Each takes what it knows and leaves the rest. */
export interface BenchOptions {
  /** A folder with models and their recorded answers. */
  readonly models?: string;
  /** A folder in Hugging Face layout, a `.gguf` file, or `tales`. */
  readonly model?: string;
  /** Fewer and shorter rounds. */
  readonly quick?: boolean;
  /** End with one line of JSON on stdout; the rest goes to stderr. */
  readonly json?: boolean;
  /** Write results/NAME.json and the section of the page that the benchmark owns. */
  readonly save?: boolean;
  /** Threads of every contender. */
  readonly threads: number;
  readonly rounds?: number;
  /** What runs the model, where a benchmark has a choice; the CPU by default. */
  readonly backend?: StudyBackend;
  /** The fast schedule of the CPU backend, where a scenario runs on it. */
  readonly fast?: FastMode;
  /** Rows of a batch, ascending. */
  readonly rows?: readonly number[];
  /** The folder with llama.cpp's own programs. */
  readonly llamaBench?: string;
  /** Files that they run, by name. */
  readonly llamaModels: ReadonlyMap<string, string>;
  /** llama.cpp's `llama-server`. */
  readonly llamaServer?: string;
  /** Of `load` and `chaos`: clients at once. */
  readonly sockets?: number;
  /** Of `load` and `chaos`: of all clients; of `offline` and `online`: of a trace. */
  readonly requests?: number;
  /** Share of the requests that are deterministic, 0 to 1. */
  readonly deterministic?: number;
  /** A server that runs already, in place of one of its own. */
  readonly url?: string;
  /** Of scenarios: what all that is drawn comes from. */
  readonly seed?: number;
  /** Of online scenarios: requests per second, ascending. */
  readonly qps?: readonly number[];
  /** Conversations in ShareGPT's JSON. */
  readonly dataset?: string;
  /** Where the report is written. */
  readonly out?: string;
  /** Begin anew where an interrupted run would go on. */
  readonly fresh?: boolean;
  /** Say what there is, and measure nothing. */
  readonly help?: boolean;
}

export interface CommandLine {
  readonly name: string | undefined;
  /** What else has no option in front of it. */
  readonly files: readonly string[];
  readonly options: BenchOptions;
}

export const usage =
  '[--save] [--json] [--quick] [--model PATH] [--threads N] [--rounds N] [--backend cpu|webgpu|webgpu+cpu|reference] [--rows N,N…] ' +
  '[--sockets N] [--requests N] [--deterministic SHARE] [--url http://HOST:PORT] ' +
  '[--fast native|batch-shaped] [--seed N] [--qps N,N…] [--dataset FILE] [--out FOLDER] [--fresh] ' +
  '[--llama-bench FOLDER] [--llama-model NAME=FILE]… [--llama-server PROGRAM] [--models FOLDER]';

const DEFAULT_THREADS = 2;

/** Throws an error that says what is wrong with the arguments. */
export function parseCommandLine(args: readonly string[]): CommandLine {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: {
      save: { type: 'boolean' },
      json: { type: 'boolean' },
      quick: { type: 'boolean' },
      models: { type: 'string' },
      model: { type: 'string' },
      threads: { type: 'string' },
      rounds: { type: 'string' },
      backend: { type: 'string' },
      rows: { type: 'string' },
      'llama-bench': { type: 'string' },
      'llama-model': { type: 'string', multiple: true },
      'llama-server': { type: 'string' },
      sockets: { type: 'string' },
      requests: { type: 'string' },
      deterministic: { type: 'string' },
      url: { type: 'string' },
      fast: { type: 'string' },
      seed: { type: 'string' },
      qps: { type: 'string' },
      dataset: { type: 'string' },
      out: { type: 'string' },
      fresh: { type: 'boolean' },
      compare: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
    allowPositionals: true,
  });
  const {
    threads,
    rounds,
    backend,
    rows,
    'llama-bench': llamaBench,
    'llama-model': llamaModels = [],
    'llama-server': llamaServer,
    sockets,
    requests,
    deterministic,
    fast,
    seed,
    qps,
    compare,
    ...rest
  } = values;
  const [name, ...files] = compare ? ['compare', ...positionals] : positionals;
  return {
    name,
    files,
    options: {
      ...rest,
      threads: threads === undefined ? DEFAULT_THREADS : count('threads', threads),
      ...(rounds !== undefined && { rounds: count('rounds', rounds) }),
      ...(backend !== undefined && { backend: oneOf('backend', studyBackends, backend) }),
      ...(rows !== undefined && { rows: ascending('rows', rows, count) }),
      ...(llamaBench !== undefined && { llamaBench }),
      llamaModels: new Map(llamaModels.map(namedFile)),
      ...(llamaServer !== undefined && { llamaServer }),
      ...(sockets !== undefined && { sockets: count('sockets', sockets) }),
      ...(requests !== undefined && { requests: count('requests', requests) }),
      ...(deterministic !== undefined && { deterministic: share('deterministic', deterministic) }),
      ...(fast !== undefined && { fast: oneOf('fast', fastModes, fast) }),
      ...(seed !== undefined && { seed: count('seed', seed) }),
      ...(qps !== undefined && { qps: ascending('qps', qps, rate) }),
    },
  };
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`--${name} is a positive integer, not ${text}`);
  return value;
}

function share(name: string, text: string): number {
  const value = Number(text);
  if (text === '' || !(value >= 0 && value <= 1)) throw new Error(`--${name} is a number from 0 to 1, not ${text}`);
  return value;
}

function rate(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new Error(`--${name} has positive numbers, not ${text}`);
  return value;
}

function oneOf<T extends string>(name: string, values: readonly T[], text: string): T {
  const found = values.find((value) => value === text);
  if (found === undefined) throw new Error(`--${name} is one of ${values.join(', ')}, not ${text}`);
  return found;
}

function ascending(name: string, text: string, parse: (name: string, text: string) => number): number[] {
  const values = text.split(',').map((one) => parse(name, one));
  return [...new Set(values)].sort((a, b) => a - b);
}

function namedFile(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1 || at === text.length - 1) throw new Error(`--llama-model is NAME=FILE, not ${text}`);
  return [text.slice(0, at), text.slice(at + 1)];
}
