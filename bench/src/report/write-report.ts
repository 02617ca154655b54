import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assert } from '@stet/backend';
import type { StudyFile } from '../study/study-file.js';
import { standaloneSvg } from './chart-svg.js';
import { paperPage } from './paper-page.js';
import { reportPage } from './report-page.js';

/**
 * Writes report.html, which needs no other file, a picture of each chart, NAME.svg, and paper.md, which is what the run
 * says beside the paper. Resolves to the report's path.
 */
export async function writeReport(folder: string, file: StudyFile): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const charts = file.scenarios.flatMap((part) => part.charts);
  assert(new Set(charts.map(({ name }) => name)).size === charts.length, 'charts have names of their own');
  for (const chart of charts) writeFileSync(join(folder, `${chart.name}.svg`), await standaloneSvg(chart));
  writeFileSync(join(folder, 'paper.md'), paperPage([file]));
  const report = join(folder, 'report.html');
  writeFileSync(report, await reportPage(file));
  return report;
}
