import { Console } from 'node:console';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { BenchOptions } from '../options.js';
import { scenarios } from '../scenarios/index.js';
import { readStudyFile } from '../study/study-file.js';
import { comparePage } from './compare-page.js';
import { compareStudies, type StudyComparison } from './compare-studies.js';
import { changeWords, movedLines } from './compare-words.js';
import { paperPage } from './paper-page.js';
import { writeReport } from './write-report.js';

/** Below the folder that the program is called in. */
const COMPARE_OUT = join('stet-bench', 'compare');

/**
 * `report FILE [--out FOLDER]`: the report of a file of results, made anew; beside the file by default. Of several files
 * it writes paper.md alone, which has them all. Resolves to the exit status; rejects with a `StetError` for a file that is none.
 */
export async function reportCommand(files: readonly string[], { out }: BenchOptions): Promise<number> {
  const [first] = files;
  if (first === undefined) return misused('report FILE [FILE…] [--out FOLDER]: which results?');
  const studies = files.map((file) => readStudyFile(file));
  const folder = out ?? dirname(first);
  if (studies.length === 1) {
    console.log(await writeReport(folder, studies[0]!));
    return 0;
  }
  mkdirSync(folder, { recursive: true });
  const paper = join(folder, 'paper.md');
  writeFileSync(paper, paperPage(studies));
  console.log(paper);
  return 0;
}

/**
 * `compare A.json B.json [--out FOLDER]`: what B changed, by ratio. Resolves to the exit status; rejects with a
 * `StetError` for files that are none, or of different studies.
 */
export async function compareCommand(
  files: readonly string[],
  { out = COMPARE_OUT, json }: BenchOptions,
): Promise<number> {
  const [fileA, fileB, ...more] = files;
  if (fileA === undefined || fileB === undefined || more.length > 0)
    return misused('compare A.json B.json [--out FOLDER]: two files of results');
  const [a, b] = [readStudyFile(fileA), readStudyFile(fileB)];
  const comparison = compareStudies(a, b, scenarios);
  const output = json ? new Console(process.stderr) : console;
  printComparison(comparison, output);
  mkdirSync(out, { recursive: true });
  const pagePath = join(out, 'compare.html');
  writeFileSync(pagePath, comparePage(a, b, comparison));
  output.log(`\npage: ${pagePath}`);
  if (json) console.log(JSON.stringify(comparison));
  return 0;
}

function printComparison(comparison: StudyComparison, output: Pick<Console, 'log' | 'table'>): void {
  const { circumstances, rule, onlyA, onlyB } = comparison;
  for (const { what, a, b } of circumstances) output.log(`${what}: ${a} | ${b}`);
  for (const { title, spread, tables } of comparison.scenarios) {
    output.log(`\n${title}${spread === 'unknown' ? ' (spread unknown)' : ''}`);
    for (const table of tables) {
      output.log(`${table.title}, B / A`);
      output.table(
        Object.fromEntries(
          table.rows.map(({ key, cells }) => [
            key,
            Object.fromEntries(cells.map((cell) => [cell.column, changeWords(cell)])),
          ]),
        ),
      );
      for (const key of table.onlyA) output.log(`only in A: ${key}`);
      for (const key of table.onlyB) output.log(`only in B: ${key}`);
    }
  }
  for (const title of onlyA) output.log(`only in A: ${title}`);
  for (const title of onlyB) output.log(`only in B: ${title}`);
  const moved = movedLines(comparison);
  output.log(
    `\n${moved.length === 0 ? 'nothing moved' : `moved:\n${moved.map((line) => `- ${line}`).join('\n')}`}\n\n${rule}`,
  );
}

function misused(usage: string): number {
  console.error(`usage: ${usage}`);
  return 2;
}
