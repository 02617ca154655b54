import { assertNever } from '@stet/backend';
import { rounded } from '../stats.js';
import type { Json, Row } from '../study/scenario.js';
import { type MatrixBackend, matrixBackends } from './backend-names.js';
import { type Cell, isEqual } from './cells.js';
import { type Schedule, scheduleWords } from './schedule.js';

const DIGITS = 4;
const NOTHING = '–';

type Compared = Extract<Cell, { kind: 'compared' }>;

/** A line of the JSON: what was compared, or why nothing was. */
export function matrixRow(cell: Cell): Json {
  const row = { backend: cell.backend, schedule: scheduleWords(cell.schedule) };
  const nothing = { equalTokens: null, equalLogprobs: null, firstDifference: null, gap: null };
  switch (cell.kind) {
    case 'compared': {
      const { equalTokens, equalLogprobs, firstDifference, gap } = cell.comparison;
      return { ...row, equalTokens, equalLogprobs, firstDifference: firstDifference && { ...firstDifference }, gap };
    }
    case 'baseline':
      return { ...row, ...nothing, equalTokens: true, equalLogprobs: true, baseline: true };
    case 'skipped':
      return { ...row, ...nothing, skipped: cell.reason };
    case 'failed':
      return { ...row, ...nothing, failed: cell.error };
    default:
      return assertNever(cell);
  }
}

/** A row for each backend. */
export function summary(cells: readonly Cell[]): Row[] {
  return matrixBackends.map((backend) => {
    const own = cells.filter((cell) => cell.backend === backend);
    const canonical = ofRows(own, 'canonical');
    const fast = ofRows(own, 'fast');
    const flip = fast.find((cell): cell is Compared => cell.kind === 'compared' && !cell.comparison.equalTokens);
    return {
      backend,
      'canonical, equal': countOf(canonical, isEqual),
      'fast, equal tokens': countOf(fast, hasEqualTokens),
      'fast, equal bits': countOf(fast, isEqual),
      'fast, first other token': flip ? placeOf(flip) : NOTHING,
      'gap there': flip?.comparison.gap == null ? NOTHING : rounded(flip.comparison.gap, DIGITS),
      device: deviceOf(own),
    };
  });
}

/** A row for each schedule, a column for each backend that is there; with whatever threads. */
export function bySchedule(cells: readonly Cell[]): Row[] {
  const there = matrixBackends.filter((backend) => cells.some((cell) => cell.backend === backend && isAnswer(cell)));
  const inOrder = [...ofRows(cells, 'canonical'), ...ofRows(cells, 'fast')];
  const words = [...new Set(inOrder.map(({ schedule }) => wordsOf(schedule)))];
  return words.map((schedule) => ({
    schedule,
    ...Object.fromEntries(
      there.map((backend) => [
        backend,
        signOf(cells.filter((cell) => cell.backend === backend && wordsOf(cell.schedule) === schedule)),
      ]),
    ),
  }));
}

export function whereFastDiffers(cells: readonly Cell[]): Row[] {
  return cells
    .filter((cell): cell is Compared => cell.kind === 'compared' && cell.schedule.rows === 'fast')
    .filter(({ comparison }) => !comparison.equalTokens)
    .map((cell) => ({
      backend: cell.backend,
      schedule: scheduleWords(cell.schedule),
      'first other token': placeOf(cell),
      'gap there': cell.comparison.gap === null ? NOTHING : rounded(cell.comparison.gap, DIGITS),
    }));
}

export function ofRows(cells: readonly Cell[], rows: Schedule['rows']): Cell[] {
  return cells.filter(({ schedule }) => schedule.rows === rows);
}

export function isAnswer(cell: Cell): cell is Extract<Cell, { kind: 'compared' | 'baseline' }> {
  return cell.kind === 'compared' || cell.kind === 'baseline';
}

export function hasEqualTokens(cell: Cell): boolean {
  return cell.kind === 'baseline' || (cell.kind === 'compared' && cell.comparison.equalTokens);
}

function countOf(cells: readonly Cell[], counts: (cell: Cell) => boolean): string {
  const compared = cells.filter(({ kind }) => kind === 'compared' || kind === 'failed');
  if (compared.length === 0) return cells.some(({ kind }) => kind === 'baseline') ? 'baseline' : NOTHING;
  return `${compared.filter(counts).length} of ${compared.length}`;
}

function deviceOf(cells: readonly Cell[]): string {
  const answered = cells.find(isAnswer);
  if (answered) return answered.answers.device;
  const [first] = cells;
  if (first?.kind === 'skipped') return `skipped: ${first.reason}`;
  return first?.kind === 'failed' ? `failed: ${first.error}` : NOTHING;
}

function placeOf({ comparison: { firstDifference } }: Compared): string {
  return firstDifference ? `request ${firstDifference.request}, token ${firstDifference.token}` : NOTHING;
}

/** The worst of cells that differ in threads. */
function signOf(cells: readonly Cell[]): string {
  const [worst] = cells.map(rankOf).sort((a, b) => b - a);
  return worst === undefined ? '' : SIGNS[worst]!;
}

const SIGNS = ['baseline', '=', 'other bits', 'other tokens', 'skipped', 'failed'];

function rankOf(cell: Cell): number {
  if (cell.kind === 'failed') return 5;
  if (cell.kind === 'skipped') return 4;
  if (cell.kind === 'baseline') return 0;
  return isEqual(cell) ? 1 : hasEqualTokens(cell) ? 2 : 3;
}

function wordsOf({ threads: _, ...schedule }: Schedule): string {
  return scheduleWords(schedule);
}

export function backendsOf(cells: readonly Cell[]): MatrixBackend[] {
  return matrixBackends.filter((backend) => cells.some((cell) => cell.backend === backend));
}
