import { assert } from '@stet/backend';
import type { Axis, Chart } from '../study/scenario.js';
import { shortFigure } from './figures.js';

/** One mark, under names that no column of a scenario can confuse. */
export interface Mark {
  readonly x: string | number;
  readonly y: string | number;
  readonly color?: string | number;
  readonly facet?: string;
  /** The figure that the mark stands for. */
  readonly label: string;
  /** Which mark it is, for whoever points at it. */
  readonly told: string;
}

export interface ChartData {
  readonly marks: readonly Mark[];
  /** Distinct values in order of appearance. */
  readonly xs: readonly (string | number)[];
  readonly colors: readonly (string | number)[];
  readonly facets: readonly (string | number)[];
  /** Rows that have no place in the chart. */
  readonly undrawnCount: number;
}

/** Columns of a chart by what they are for; without rows that an axis has no place for, which are those of 0 and below on a logarithm. */
export function chartData(chart: Chart): ChartData {
  const { rows, x, y, color, facet, kind, name } = chart;
  for (const { field } of [x, y, color, facet].filter((one) => one !== undefined))
    assert(
      rows.every((row) => field in row),
      `the chart ${name} has rows without ${field}`,
    );
  const drawn = rows.filter((row) => isPlaced(row[x.field]!, x) && isPlaced(row[y.field]!, y));
  const marks = drawn.map((row): Mark => {
    const figure = row[kind === 'heat' && color ? color.field : y.field]!;
    const label = typeof figure === 'number' ? shortFigure(figure) : figure;
    const told = [facet, color, x, y]
      .filter((one) => one !== undefined)
      .map(({ field, title }) => `${title}: ${tell(row[field]!)}`);
    return {
      x: row[x.field]!,
      y: row[y.field]!,
      ...(color && { color: row[color.field]! }),
      ...(facet && { facet: `${facet.title}: ${tell(row[facet.field]!)}` }),
      label,
      told: told.join(', '),
    };
  });
  const distinct = (field: 'x' | 'color' | 'facet') => [
    ...new Set(marks.map((mark) => mark[field]).filter((value) => value !== undefined)),
  ];
  return {
    marks,
    xs: distinct('x'),
    colors: distinct('color'),
    facets: distinct('facet'),
    undrawnCount: rows.length - drawn.length,
  };
}

function isPlaced(value: string | number | null, { type, scale }: Axis): boolean {
  if (type !== 'quantitative') return value !== null;
  return typeof value === 'number' && Number.isFinite(value) && (scale !== 'log' || value > 0);
}

function tell(value: string | number): string {
  return typeof value === 'number' ? shortFigure(value) : value;
}
