import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { main } from '../../src/index.js';
import { writeStudyFile } from '../../src/study/study-file.js';
import { studyFile, timedPart } from './study-files.js';

describe('the bench, with files of results', () => {
  let folder: string;
  let said: string[];
  let complained: string[];
  const path = (name: string) => join(folder, name);

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'stet-commands-'));
    [said, complained] = [[], []];
    vi.spyOn(console, 'log').mockImplementation((line: string) => void said.push(line));
    vi.spyOn(console, 'table').mockImplementation((rows: unknown) => void said.push(JSON.stringify(rows)));
    vi.spyOn(console, 'error').mockImplementation((line: string) => void complained.push(line));
    writeStudyFile(path('a.json'), studyFile());
    writeStudyFile(path('b.json'), studyFile({ scenarios: [timedPart(1.5)] }));
    writeStudyFile(path('full.json'), studyFile({ study: { ...studyFile().study, size: 'full' } }));
  });
  afterEach(() => {
    vi.restoreAllMocks();
    rmSync(folder, { recursive: true });
  });

  it('makes a report anew, beside the file or where it is told to', async () => {
    expect(await main(['report', path('a.json')])).toBe(0);
    expect(said).toEqual([path('report.html')]);
    expect(await main(['report', path('a.json'), '--out', path('deep/er')])).toBe(0);
    expect(readFileSync(path('deep/er/report.html'), 'utf8')).toBe(readFileSync(path('report.html'), 'utf8'));
    expect(existsSync(path('deep/er/offline.svg'))).toBe(true);
  });

  it('makes one page beside the paper of several files', async () => {
    expect(await main(['report', path('a.json'), path('full.json'), '--out', path('paper')])).toBe(0);
    expect(readFileSync(path('paper/paper.md'), 'utf8')).toContain('4 figures beside theirs: 2 better, 2 worse.');
    expect(existsSync(path('paper/report.html'))).toBe(false);
  });

  it('compares two files and ends with one line of JSON', async () => {
    const status = await main(['--compare', path('a.json'), path('b.json'), '--out', path('c'), '--json']);
    expect(status).toBe(0);
    expect(said).toHaveLength(1);
    const [row] = JSON.parse(said[0]!).scenarios[0].tables[0].rows;
    expect(row).toMatchObject({
      key: 'small',
      cells: [
        { column: 'rows', ratio: 1 },
        { column: 'ms', ratio: 1.5, mark: 'up?' },
      ],
    });
    expect(readFileSync(path('c/compare.html'), 'utf8')).toContain('How long it takes, small: ms 1.50 ▲?');
  });

  it('prints ratios and what moved', async () => {
    expect(await main(['compare', path('a.json'), path('b.json'), '--out', path('c')])).toBe(0);
    expect(said).toContain(
      JSON.stringify({ small: { rows: '=', ms: '1.50 ▲?' }, large: { rows: '=', ms: '1.50 ▲?' } }),
    );
    expect(said.join('\n')).toContain('- How long it takes, large: ms 1.50 ▲? (8.16 → 12.2)');
  });

  it('refuses different studies with what differs', async () => {
    expect(await main(['compare', path('a.json'), path('full.json'), '--out', path('c')])).toBe(1);
    expect(complained[0]).toMatch(
      /^error STET_ERR_BAD_RESULTS: different studies cannot be compared: size quick and full\nhint: /,
    );
    expect(existsSync(path('c'))).toBe(false);
  });

  it('ends with 2 where files are missing or too many', async () => {
    expect(await main(['report'])).toBe(2);
    expect(await main(['compare', path('a.json')])).toBe(2);
    expect(await main(['compare', path('a.json'), path('b.json'), path('full.json')])).toBe(2);
    expect(await main(['forward', path('a.json')])).toBe(2);
    expect(said).toEqual([]);
  });

  it('says what there is when it is asked, under the name it was called by', async () => {
    expect(await main(['--help'], 'stet bench')).toBe(0);
    expect(said[0]).toMatch(/^stet bench NAME /);
    expect(said[0]).toContain('\n  forward ');
  });
});
