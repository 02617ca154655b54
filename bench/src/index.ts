import { Console } from 'node:console';
import { isStetError } from '@stet/backend';
import { benchmarks, studyCommand } from './commands.js';
import { helpText, usageLine } from './help.js';
import { type BenchOptions, type CommandLine, parseCommandLine } from './options.js';
import { compareCommand, reportCommand } from './report/commands.js';
import { machineLoad, writeReadme, writeResult } from './result.js';
import { studyRun } from './study/study-run.js';

/**
 * The bench app: runs what the arguments name. The figures go to stdout (with `--json` as one line, the tables to stderr).
 * Resolves to the exit status: 0; 1 where something was not as it must be; 2 for arguments that mean nothing; 130 when
 * interrupted, after which the same arguments go on where it stopped. `program` is what the arguments were given to.
 */
export async function main(args: readonly string[], program = 'npm run bench --'): Promise<number> {
  const misused = (why: string) => {
    console.error(`${why}\n${usageLine(program)}`);
    return 2;
  };
  let commandLine: CommandLine;
  try {
    commandLine = parseCommandLine(args);
  } catch (error) {
    return misused(error instanceof Error ? error.message : String(error));
  }
  const { name, files, options } = commandLine;
  if (options.help) {
    console.log(helpText(program));
    return 0;
  }
  if (name === undefined) return misused('what shall be measured?');
  try {
    if (name === 'compare') return await compareCommand(files, options);
    if (name === 'report') return await reportCommand(files, options);
    if (files.length > 0) return misused(`one benchmark at a time, not ${[name, ...files].join(' and ')}`);
    const study = studyCommand(name, options);
    if (study) return await studyRun(name, study, options);
    if (Object.hasOwn(benchmarks, name)) return await runBenchmark(name, options);
  } catch (error) {
    if (!isStetError(error)) throw error;
    console.error(`error ${error.code}: ${error.message}\nhint: ${error.hint}`);
    return 1;
  }
  return misused(`there is no ${name}`);
}

async function runBenchmark(name: string, options: BenchOptions): Promise<number> {
  const loadBefore = machineLoad();
  const result = await benchmarks[name]!(options);
  const output = options.json ? new Console(process.stderr) : console;
  if (result.tables) output.log(`\n${result.workload}\n\n${result.tables.join('\n\n')}\n`);
  else output.table(result.rows);
  if (options.save) {
    const { section = name } = result;
    output.log(`saved ${writeResult(section, result, loadBefore)}`);
    writeReadme(section, result, loadBefore);
  }
  if (result.failure !== undefined) console.error(result.failure);
  if (options.json) console.log(JSON.stringify(result.json ?? result));
  return result.failure === undefined ? 0 : 1;
}
