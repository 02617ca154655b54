import { readFileSync, writeFileSync } from 'node:fs';

type Row = Readonly<Record<string, string | number>>;

/** Replaces what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->` of a page. */
export function replaceSection(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to < from) throw new Error(`the page has no section between ${begin} and ${end}`);
  return `${page.slice(0, from + begin.length)}\n\n${content}\n\n${page.slice(to)}`;
}

export function writeSection(file: URL, name: string, content: string): void {
  writeFileSync(file, replaceSection(readFileSync(file, 'utf8'), name, content));
}

/** A table whose columns are those of the first row. */
export function markdownTable(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {});
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`;
  return [
    line(columns),
    line(columns.map(() => '---')),
    ...rows.map((row) => line(columns.map((name) => row[name]!))),
  ].join('\n');
}
