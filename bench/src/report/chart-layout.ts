import type { Chart } from '../study/scenario.js';
import { type ChartData, chartData } from './chart-data.js';
import { textWidth } from './text-width.js';

/** A part of a vega-lite specification; its own types are unions too large for a compiler to explain. */
export type Spec = Readonly<Record<string, unknown>>;

/** Pixels for all small charts together. */
export const WIDTH = 640;
const HEIGHT = 280;
export const SMALL_HEIGHT = 190;
export const GAP = 28;
/** Of a bar at most, with the space beside it. */
const BAR = 80;
/** Of the title of a picture by itself. */
export const TITLE_SIZE = 15;
export const LABEL_SIZE = 11;

export interface Layout {
  readonly columns: number;
  /** Pixels of one small chart. */
  readonly width: number;
  readonly height: number;
  /** Bars lie where their names are too long to stand side by side. */
  readonly direction: 'upright' | 'lying';
}

export function layoutOf({ kind, facet, x, y }: Chart, { xs, facets }: ChartData): Layout {
  const columns = facet ? columnsFor(facets.length) : 1;
  const width = Math.floor((WIDTH - GAP * (columns - 1)) / columns);
  const height = facet ? SMALL_HEIGHT : HEIGHT;
  const widest = Math.max(0, ...xs.map((value) => textWidth(String(value), LABEL_SIZE)));
  const isLying =
    kind === 'bar' && y.scale !== 'log' && x.type !== 'quantitative' && widest + 8 > width / Math.max(1, xs.length);
  return { columns, width, height, direction: isLying ? 'lying' : 'upright' };
}

function columnsFor(count: number): number {
  return count <= 3 ? Math.max(1, count) : count === 4 ? 2 : 3;
}

export function sizeOf(chart: Chart, { width, height, direction }: Layout): Spec {
  if (chart.kind === 'heat') {
    const labels = chartData(chart).marks.map(({ label }) => textWidth(label, LABEL_SIZE));
    return { width: { step: Math.max(44, ...labels.map((label) => label + 14)) }, height: { step: 30 } };
  }
  if (direction === 'lying') return { width: width - 160, height: { step: chart.color ? 14 : 26 } };
  const bars = chartData(chart).marks.length;
  return { width: chart.kind === 'bar' ? Math.min(width, Math.max(200, bars * BAR)) : width, height };
}
