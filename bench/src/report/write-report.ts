import type { StudyFile } from '../study/study-file.js';

/** Writes report.html, which needs no other file, and a picture of each chart, NAME.svg. Resolves to the report's path. */
export async function writeReport(folder: string, file: StudyFile): Promise<string> {
  throw new Error(`no report of ${file.date} in ${folder} yet`);
}
