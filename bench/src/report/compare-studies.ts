import { StetError } from '@stet/backend';
import type { Scenario, Table } from '../study/scenario.js';
import type { StudyFile, StudyPart } from '../study/study-file.js';
import { DRAWS, drawRounds, LEAST_ROUNDS, redrawable } from './redrawn-rounds.js';
import { type MatchedTable, matchTables, rowsByKey } from './row-match.js';
import { circumstances, type Difference, studyDifferences } from './study-differences.js';

/** Smaller changes are marked by no rule. */
const LEAST_CHANGE = 0.02;
/** Where nobody knows how far rounds are apart. */
const LEAST_UNKNOWN_CHANGE = 0.1;

export const movedRule =
  `A figure is marked where B / A is at least ${LEAST_CHANGE * 100} % from 1 and the rounds alone do not explain it: they are drawn anew ${DRAWS} times, ` +
  `the same ones of both runs, and all ratios lie on the same side of 1. With fewer than ${LEAST_ROUNDS} rounds, or where ` +
  `the scenario has changed since, the spread is unknown, and from ${LEAST_UNKNOWN_CHANGE * 100} % on a figure is marked with a question mark. Words are marked where they differ.`;

export type Mark = 'up' | 'down' | 'changed' | 'up?' | 'down?' | 'changed?' | 'still';

/** One figure, or one word, of one row. */
export interface CellChange {
  readonly column: string;
  readonly a: string | number | null;
  readonly b: string | number | null;
  /** B / A; absent for words and where A is 0. */
  readonly ratio?: number;
  /** Between which the ratios of redrawn rounds lie. */
  readonly range?: readonly [low: number, high: number];
  readonly mark: Mark;
}

export interface TableChange {
  readonly title: string;
  readonly rows: readonly { readonly key: string; readonly cells: readonly CellChange[] }[];
  readonly onlyA: readonly string[];
  readonly onlyB: readonly string[];
}

export interface ScenarioChange {
  readonly name: string;
  readonly title: string;
  readonly spread: 'known' | 'unknown';
  readonly tables: readonly TableChange[];
}

export interface StudyComparison {
  readonly circumstances: readonly Difference[];
  readonly rule: string;
  readonly scenarios: readonly ScenarioChange[];
  /** Titles of scenarios and tables that one of the files lacks. */
  readonly onlyA: readonly string[];
  readonly onlyB: readonly string[];
}

/** What B changed. Throws a `StetError` with `STET_ERR_BAD_RESULTS` for different studies. */
export function compareStudies(a: StudyFile, b: StudyFile, scenarios: readonly Scenario[]): StudyComparison {
  const differences = studyDifferences(a, b);
  if (differences.length > 0) {
    const told = differences.map((one) => `${one.what} ${one.a} and ${one.b}`).join('; ');
    throw new StetError('STET_ERR_BAD_RESULTS', `different studies cannot be compared: ${told}`);
  }
  const both = a.scenarios.flatMap((partA) => {
    const partB = b.scenarios.find(({ name }) => name === partA.name);
    return partB ? [{ partA, partB, scenario: scenarios.find(({ name }) => name === partA.name) }] : [];
  });
  return {
    circumstances: circumstances(a, b),
    rule: movedRule,
    scenarios: both.map(({ partA, partB, scenario }) => scenarioChange(a, b, partA, partB, scenario)),
    onlyA: missing(titles(a), titles(b)),
    onlyB: missing(titles(b), titles(a)),
  };
}

function titles({ scenarios }: StudyFile): string[] {
  return scenarios.flatMap(({ title, tables }) => [title, ...tables.map((table) => `${title}: ${table.title}`)]);
}

function missing(some: readonly string[], others: readonly string[]): string[] {
  return some.filter((one) => !others.includes(one));
}

function scenarioChange(
  a: StudyFile,
  b: StudyFile,
  partA: StudyPart,
  partB: StudyPart,
  scenario: Scenario | undefined,
): ScenarioChange {
  const draws = redrawBoth(redrawable(partA, a.study, scenario), redrawable(partB, b.study, scenario));
  const tables = partA.tables.flatMap((tableA) => {
    const tableB = partB.tables.find(({ title }) => title === tableA.title);
    return tableB ? [tableChange(tableA.title, matchTables(tableA, tableB), draws)] : [];
  });
  return { name: partA.name, title: partA.title, spread: draws ? 'known' : 'unknown', tables };
}

/** Tables of both runs from the same redrawn rounds, once for each draw. */
type Draws = readonly (readonly [a: readonly Table[], b: readonly Table[]])[];

function redrawBoth(a: ReturnType<typeof redrawable>, b: ReturnType<typeof redrawable>): Draws | undefined {
  if (!a || !b || a.rounds.join() !== b.rounds.join()) return undefined;
  return Array.from({ length: DRAWS }, (_, draw) => {
    const rounds = drawRounds(a.rounds, draw);
    return [a.redraw(rounds), b.redraw(rounds)] as const;
  });
}

function tableChange(title: string, matched: MatchedTable, draws: Draws | undefined): TableChange {
  const { keys, columns, pairs, onlyA, onlyB } = matched;
  const rowsOf = (tables: readonly Table[]) => rowsByKey(tables.find((one) => one.title === title)?.rows ?? [], keys);
  const redrawn = draws?.map(([a, b]) => [rowsOf(a), rowsOf(b)] as const);
  const rows = pairs.map(({ key, a, b }) => ({
    key,
    cells: columns.map((column) => {
      const ratios = redrawn?.flatMap(
        ([rowsA, rowsB]) => ratioOf(rowsA.get(key)?.[column], rowsB.get(key)?.[column]) ?? [],
      );
      return cellChange(column, a[column] ?? null, b[column] ?? null, ratios);
    }),
  }));
  return { title, rows, onlyA, onlyB };
}

function cellChange(
  column: string,
  a: string | number | null,
  b: string | number | null,
  ratios: readonly number[] | undefined,
): CellChange {
  const ratio = ratioOf(a, b);
  if (ratio === undefined)
    return { column, a, b, mark: a === b ? 'still' : typeof a === 'number' && !ratios ? 'changed?' : 'changed' };
  if (!ratios || ratios.length === 0) {
    const isFar = Math.abs(ratio - 1) >= LEAST_UNKNOWN_CHANGE;
    return { column, a, b, ratio, mark: !isFar ? 'still' : ratio > 1 ? 'up?' : 'down?' };
  }
  const range = [Math.min(...ratios), Math.max(...ratios)] as const;
  const isMoved = Math.abs(ratio - 1) >= LEAST_CHANGE && (range[0] > 1 || range[1] < 1);
  return { column, a, b, ratio, range, mark: !isMoved ? 'still' : ratio > 1 ? 'up' : 'down' };
}

function ratioOf(a: string | number | null | undefined, b: string | number | null | undefined): number | undefined {
  if (typeof a !== 'number' || typeof b !== 'number') return undefined;
  if (a === b) return 1;
  return a !== 0 && Number.isFinite(b / a) ? b / a : undefined;
}
