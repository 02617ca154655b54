import type { StudyFile } from './study-file.js';

/** Findings and tables of every scenario, for a terminal. */
export function printStudy({ scenarios }: StudyFile, output: Pick<Console, 'log' | 'table'>): void {
  for (const { title, question, workload, findings, tables } of scenarios) {
    output.log(`\n${title}\n${question}\n${workload}\n`);
    for (const finding of findings) output.log(`- ${finding}`);
    for (const table of tables) {
      output.log(`\n${table.title}`);
      output.table(table.rows);
    }
  }
}
