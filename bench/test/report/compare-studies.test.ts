import { describe, expect, it } from 'vitest';
import { comparePage } from '../../src/report/compare-page.js';
import { compareStudies, type TableChange } from '../../src/report/compare-studies.js';
import { movedLines } from '../../src/report/compare-words.js';
import { median } from '../../src/stats.js';
import { partOf } from '../../src/study/run-study.js';
import type { Scenario } from '../../src/study/scenario.js';
import type { StudyFile } from '../../src/study/study-file.js';
import { studyFile, timedPart } from './study-files.js';

const ROUNDS = 9;

/** Median milliseconds of two sizes; round 0 warms up. */
const timed: Scenario<number> = {
  name: 'timed',
  title: 'How long it takes',
  question: 'How long?',
  units: () => [],
  result: (measures) => ({
    workload: 'two sizes',
    findings: [],
    charts: [],
    tables: [
      {
        title: 'Milliseconds',
        rows: ['small', 'large'].map((size) => ({
          size,
          rows: size === 'small' ? 1 : 4,
          ms: median(Array.from({ length: ROUNDS }, (_, round) => measures.get(`${size}, round ${round + 1}`)!)),
          verdict: 'equal',
        })),
      },
    ],
  }),
};
const scenarios = [timed as Scenario];

/** `noise`: how far rounds are apart; `scale`: of the large size. */
function run({ noise = 0.01, scale = 1, shift = 0 } = {}): StudyFile {
  const measures = new Map<string, number>();
  for (let round = 0; round <= ROUNDS; round++) {
    const factor = 1 + noise * (((round * 5 + shift) % 7) / 3 - 1);
    measures.set(`small, round ${round}`, round === 0 ? 1000 : 2 * factor);
    measures.set(`large, round ${round}`, round === 0 ? 1000 : 8 * factor * scale);
  }
  return studyFile({ scenarios: [partOf(timed as Scenario, measures, studyFile().study)] });
}

const onlyTable = (a: StudyFile, b: StudyFile, known = scenarios): TableChange =>
  compareStudies(a, b, known).scenarios[0]!.tables[0]!;
const cellOf = (table: TableChange, key: string, column: string) =>
  table.rows.find((row) => row.key === key)!.cells.find((cell) => cell.column === column)!;

describe('two runs of one study', () => {
  it('have the same figures by the names of their rows', () => {
    const table = onlyTable(run(), run());
    expect(table.rows.map(({ key }) => key)).toEqual(['small', 'large']);
    expect(cellOf(table, 'large', 'ms')).toMatchObject({ a: 8, b: 8, ratio: 1, mark: 'still' });
    expect(movedLines(compareStudies(run(), run(), scenarios))).toEqual([]);
  });

  it('have a mark where a figure moved by more than rounds do', () => {
    const table = onlyTable(run(), run({ scale: 1.2, shift: 3 }));
    const cell = cellOf(table, 'large', 'ms');
    expect(cell).toMatchObject({ mark: 'up', ratio: expect.closeTo(1.2, 1) });
    expect(cell.range![0]).toBeGreaterThan(1.1);
    expect(cellOf(table, 'small', 'ms').mark).toBe('still');
    expect(cellOf(onlyTable(run({ scale: 1.2 }), run()), 'large', 'ms').mark).toBe('down');
  });

  it('have none where rounds explain it', () => {
    const table = onlyTable(run({ noise: 0.6 }), run({ noise: 0.6, scale: 1.1, shift: 2 }));
    const cell = cellOf(table, 'large', 'ms');
    expect(Math.abs(cell.ratio! - 1)).toBeGreaterThan(0.02);
    expect(cell.mark).toBe('still');
    expect(cell.range![0]).toBeLessThan(1);
    expect(cell.range![1]).toBeGreaterThan(1);
  });

  it('say the same each time', () => {
    const [a, b] = [run({ noise: 0.3 }), run({ noise: 0.3, scale: 1.3, shift: 1 })];
    expect(compareStudies(a, b, scenarios)).toEqual(compareStudies(a, b, scenarios));
  });

  it('have question marks where nobody knows the scenario, or it tells something else today', () => {
    const [a, b] = [run(), run({ scale: 1.2 })];
    expect(compareStudies(a, b, []).scenarios[0]!.spread).toBe('unknown');
    expect(cellOf(onlyTable(a, b, []), 'large', 'ms').mark).toBe('up?');
    const changed = { ...timed, result: () => ({ workload: '', findings: [], charts: [], tables: [] }) } as Scenario;
    expect(cellOf(onlyTable(a, b, [changed]), 'large', 'ms').mark).toBe('up?');
    expect(cellOf(onlyTable(a, run({ scale: 1.05 }), []), 'large', 'ms').mark).toBe('still');
  });

  it('have a mark where a word changed', () => {
    const a = run();
    const [part] = a.scenarios;
    const rows = part!.tables[0]!.rows.map((row) => ({ ...row, verdict: 'differs' }));
    const b = { ...a, scenarios: [{ ...part!, tables: [{ title: 'Milliseconds', rows }] }] };
    expect(cellOf(onlyTable(a, b), 'small', 'verdict')).toEqual({
      column: 'verdict',
      a: 'equal',
      b: 'differs',
      mark: 'changed',
    });
    expect(movedLines(compareStudies(a, b, scenarios))[0]).toBe('How long it takes, small: verdict equal → differs ◆');
  });

  it('name rows, tables and scenarios that one of them lacks', () => {
    const a = run();
    const [part] = a.scenarios;
    const [table] = part!.tables;
    const b = studyFile({
      scenarios: [
        {
          ...part!,
          tables: [
            { title: 'Milliseconds', rows: table!.rows.slice(1) },
            { title: 'More', rows: [] },
          ],
        },
        timedPart(1, { name: 'other', title: 'Another', tables: [] }),
      ],
    });
    const comparison = compareStudies(a, b, scenarios);
    expect(comparison.scenarios[0]!.tables[0]!.onlyA).toEqual(['small']);
    expect(comparison.onlyB).toEqual(['How long it takes: More', 'Another']);
    expect(comparison.onlyA).toEqual([]);
  });

  it('have no ratio to nothing', () => {
    const a = run();
    const withCount = (recomputed: number) => ({
      ...a,
      scenarios: [{ ...a.scenarios[0]!, tables: [{ title: 'Counts', rows: [{ case: 'one', recomputed }] }] }],
    });
    const table = onlyTable(withCount(0), withCount(3.5), []);
    expect(table.rows[0]!.cells).toEqual([{ column: 'recomputed', a: 0, b: 3.5, mark: 'changed?' }]);
  });
});

describe('two runs of different studies', () => {
  const a = studyFile();
  it.each<[string, StudyFile]>([
    ['model tales and other', studyFile({ model: { ...a.model, name: 'other' } })],
    ['fingerprint stet1-0123456789abcdef and stet1-1', studyFile({ model: { ...a.model, fingerprint: 'stet1-1' } })],
    ['backend cpu and webgpu', studyFile({ study: { ...a.study, backend: 'webgpu' } })],
    ['size quick and full', studyFile({ study: { ...a.study, size: 'full' } })],
    ['fast native and batch-shaped', studyFile({ study: { ...a.study, fast: 'batch-shaped' } })],
    ['threads 2 and 4; seed 42 and 7', studyFile({ study: { ...a.study, threads: 4, seed: 7 } })],
    ['rounds none and 5', studyFile({ study: { ...a.study, rounds: 5 } })],
  ])('are refused with what differs: %s', (words, b) => {
    expect(() => compareStudies(a, b, [])).toThrow(`different studies cannot be compared: ${words}`);
  });

  it('are not those that ran elsewhere or later, which is told', () => {
    const b = studyFile({
      date: '2026-12-01T00:00:00.000Z',
      machine: { ...a.machine, cpu: 'Other CPU', cores: 4 },
      versions: { ...a.versions, node: '24.0.0' },
    });
    expect(compareStudies(a, b, []).circumstances).toEqual([
      { what: 'date', a: a.date, b: b.date },
      { what: 'cpu', a: 'Some CPU', b: 'Other CPU' },
      { what: 'cores', a: '2', b: '4' },
      { what: 'version of node', a: '20.20.2', b: '24.0.0' },
    ]);
  });
});

describe('the page of a comparison', () => {
  it('shows what moved in front, and escapes what files say', () => {
    const [a, b] = [run(), run({ scale: 1.5 })];
    const page = comparePage(
      a,
      { ...b, device: '<script>' },
      compareStudies(a, { ...b, device: '<script>' }, scenarios),
    );
    expect(page).toContain('What moved: 1');
    expect(page).toContain('How long it takes, large: ms 1.50 ▲ (8 → 12)');
    expect(page).not.toContain('<script');
    expect(page).toContain('&lt;script&gt;');
  });
});
