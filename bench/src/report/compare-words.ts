import { assertNever } from '@stet/backend';
import type { CellChange, Mark, StudyComparison } from './compare-studies.js';
import { shortFigure } from './figures.js';

/** A change in few characters: its ratio with an arrow, or the words; `=` where there is none. */
export function changeWords({ a, b, ratio, mark }: CellChange): string {
  if (a === b) return '=';
  const told = ratio === undefined ? `${tell(a)} → ${tell(b)}` : ratio.toFixed(2);
  return `${told}${markSign(mark)}`;
}

export function markSign(mark: Mark): string {
  switch (mark) {
    case 'still':
      return '';
    case 'up':
      return ' ▲';
    case 'down':
      return ' ▼';
    case 'changed':
      return ' ◆';
    case 'up?':
      return ' ▲?';
    case 'down?':
      return ' ▼?';
    case 'changed?':
      return ' ◆?';
    default:
      return assertNever(mark);
  }
}

/** What moved, one line for each figure. */
export function movedLines({ scenarios }: StudyComparison): string[] {
  return scenarios.flatMap(({ title, tables }) =>
    tables.flatMap(({ rows }) =>
      rows.flatMap(({ key, cells }) =>
        cells
          .filter(({ mark }) => mark !== 'still')
          .map((cell) => {
            const { column, a, b, ratio } = cell;
            const from = ratio === undefined ? '' : ` (${tell(a)} → ${tell(b)})`;
            return `${title}, ${key}: ${column} ${changeWords(cell)}${from}`;
          }),
      ),
    ),
  );
}

export function tell(value: string | number | null): string {
  if (value === null) return '–';
  return typeof value === 'number' ? shortFigure(value) : value;
}
