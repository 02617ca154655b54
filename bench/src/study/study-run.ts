import { Console } from 'node:console';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { StudyCommand } from '../commands.js';
import { resultsFolder } from '../folders.js';
import type { BenchOptions } from '../options.js';
import { writeReport } from '../report/write-report.js';
import { printStudy } from './print-study.js';
import { openProgress } from './progress.js';
import { runStudy } from './run-study.js';
import type { Study } from './study.js';
import { type StudyFile, writeStudyFile } from './study-file.js';

/** Below the folder that the program is called in. */
const OUT = 'stet-bench';
const DEFAULT_SEED = 42;

/** Runs scenarios, prints what they found and writes results and report. Resolves to the exit status, see `main`. */
export async function studyRun(name: string, command: StudyCommand, options: BenchOptions): Promise<number> {
  const study = studyOf(command, options);
  const folder = options.out ?? (options.save ? resultsOf(name, study) : join(OUT, name));
  mkdirSync(folder, { recursive: true });
  const journal = join(folder, 'unfinished.jsonl');
  const interrupt = new AbortController();
  const onSignal = () => {
    if (interrupt.signal.aborted) process.exit(130);
    process.stderr.write('\nending with what runs now; once more ends at once\n');
    interrupt.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  let file: StudyFile;
  try {
    const { scenarios } = command;
    const progress = openProgress(process.stderr);
    const { signal } = interrupt;
    file = await runStudy({ scenarios, study, journal, isFresh: options.fresh ?? false, progress, signal });
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    console.error('interrupted: the same command goes on from here, with --fresh from the beginning');
    return 130;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
  writeStudyFile(join(folder, 'results.json'), file);
  const report = await writeReport(folder, file);
  rmSync(journal);
  return tell(file, report, options);
}

function tell(file: StudyFile, report: string, { json }: BenchOptions): number {
  const output = json ? new Console(process.stderr) : console;
  printStudy(file, output);
  output.log(`\nreport: ${report}`);
  const failures = file.scenarios.filter(({ failure }) => failure !== undefined);
  for (const { title, failure } of failures) console.error(`${title}: ${failure}`);
  if (json) {
    const [only] = file.scenarios;
    console.log(JSON.stringify(file.scenarios.length === 1 ? (only!.json ?? only) : file));
  }
  return failures.length === 0 ? 0 : 1;
}

function studyOf({ size }: StudyCommand, options: BenchOptions): Study {
  const { model = 'tales', backend = 'cpu', fast = 'native', seed = DEFAULT_SEED, threads } = options;
  const { rounds, qps, requests, dataset } = options;
  return {
    size,
    model,
    backend,
    fast,
    threads,
    seed,
    ...(rounds !== undefined && { rounds }),
    ...(qps && { qps }),
    ...(requests !== undefined && { requests }),
    ...(dataset !== undefined && { dataset }),
  };
}

/** What is kept in the repository: a folder for each command and whatever is not the default. */
function resultsOf(name: string, { backend, fast }: Study): string {
  const parts = [name, ...(backend === 'cpu' ? [] : [backend]), ...(fast === 'native' ? [] : [fast])];
  return join(resultsFolder, parts.join('-'));
}
