import { parseArgs } from 'node:util';
import { type BenchBackend, benchBackends } from './backends.js';

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
  readonly backend?: BenchBackend;
  /** Rows of a batch, ascending. */
  readonly rows?: readonly number[];
  /** The folder with llama.cpp's own programs. */
  readonly llamaBench?: string;
  /** Files that they run, by name. */
  readonly llamaModels: ReadonlyMap<string, string>;
  /** llama.cpp's `llama-server`. */
  readonly llamaServer?: string;
  /** Of `load` and `chaos`: clients at once, and requests of all of them. */
  readonly sockets?: number;
  readonly requests?: number;
  /** Share of the requests that are deterministic, 0 to 1. */
  readonly deterministic?: number;
  /** A server that runs already, in place of one of its own. */
  readonly url?: string;
}

export interface CommandLine {
  readonly name: string | undefined;
  readonly options: BenchOptions;
}

export const usage =
  '[--save] [--json] [--quick] [--model PATH] [--threads N] [--rounds N] [--backend cpu|webgpu] [--rows N,N…] ' +
  '[--sockets N] [--requests N] [--deterministic SHARE] [--url http://HOST:PORT] ' +
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
    ...rest
  } = values;
  if (positionals.length > 1) throw new Error(`one benchmark at a time, not ${positionals.join(' and ')}`);
  return {
    name: positionals[0],
    options: {
      ...rest,
      threads: threads === undefined ? DEFAULT_THREADS : count('threads', threads),
      ...(rounds !== undefined && { rounds: count('rounds', rounds) }),
      ...(backend !== undefined && { backend: benchBackend(backend) }),
      ...(rows !== undefined && { rows: rowCounts(rows) }),
      ...(llamaBench !== undefined && { llamaBench }),
      llamaModels: new Map(llamaModels.map(namedFile)),
      ...(llamaServer !== undefined && { llamaServer }),
      ...(sockets !== undefined && { sockets: count('sockets', sockets) }),
      ...(requests !== undefined && { requests: count('requests', requests) }),
      ...(deterministic !== undefined && { deterministic: share('deterministic', deterministic) }),
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

function benchBackend(text: string): BenchBackend {
  const found = benchBackends.find((name) => name === text);
  if (!found) throw new Error(`--backend is one of ${benchBackends.join(', ')}, not ${text}`);
  return found;
}

function rowCounts(text: string): number[] {
  const counts = text.split(',').map((one) => count('rows', one));
  return [...new Set(counts)].sort((a, b) => a - b);
}

function namedFile(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1 || at === text.length - 1) throw new Error(`--llama-model is NAME=FILE, not ${text}`);
  return [text.slice(0, at), text.slice(at + 1)];
}
