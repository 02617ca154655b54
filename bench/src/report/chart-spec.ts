import { assertNever } from '@stet/backend';
import type { TopLevelSpec } from 'vega-lite';
import type { Axis, Chart } from '../study/scenario.js';
import { type ChartData, chartData } from './chart-data.js';
import { textWidth } from './text-width.js';
import { type Colour, colours, heatColours, heatText, sansFont, seriesColours, wordColours } from './theme.js';

/** A part of a vega-lite specification; its own types are unions too large for a compiler to explain. */
type Spec = Readonly<Record<string, unknown>>;

/** Pixels for all small charts together. */
const WIDTH = 640;
const HEIGHT = 280;
const SMALL_HEIGHT = 190;
const GAP = 28;
/** Of a bar at most, with the space beside it. */
const BAR = 80;
/** Of the title of a picture by itself. */
export const TITLE_SIZE = 15;
const LABEL_SIZE = 11;
/** A line with more points is drawn without them. */
const MOST_POINTS = 24;
/** More bars have no figures above them. */
const MOST_LABELS = 24;

const dashes = [
  [1, 0],
  [6, 3],
  [2, 2],
  [9, 3, 2, 3],
  [4, 2, 1, 2],
  [12, 4],
  [1, 3],
  [6, 2, 2, 2, 2, 2],
];
const shapes = ['circle', 'square', 'triangle-up', 'diamond', 'triangle-down', 'cross', 'triangle-right'];

/** `isAlone`: with its title, as a picture that no page explains. */
export function chartSpec(chart: Chart, isAlone: boolean): TopLevelSpec {
  const data = chartData(chart);
  if (data.marks.length === 0) return emptySpec(chart, isAlone);
  const layout = layoutOf(chart, data);
  const layers = [...marksOf(chart, data, layout), ...ruleOf(chart, layout)];
  // Text lies on lines, never below them.
  const isText = ({ mark }: Spec) => (mark as Spec).type === 'text';
  layers.sort((a, b) => Number(isText(a)) - Number(isText(b)));
  const unit: Spec = { ...sizeOf(chart, layout), layer: layers };
  const spec: Spec = {
    data: { values: data.marks },
    background: colours.sheet.light,
    padding: 8,
    config,
    ...(isAlone && { title: { text: chart.title } }),
    ...(chart.facet ? { facet: facetOf(data), spec: unit } : unit),
    ...(chart.facet && { columns: layout.columns, spacing: GAP }),
  };
  return spec as unknown as TopLevelSpec;
}

/** Where nothing was measured that could be drawn. */
function emptySpec({ title }: Chart, isAlone: boolean): TopLevelSpec {
  const spec: Spec = {
    data: { values: [{}] },
    background: colours.sheet.light,
    width: WIDTH / 2,
    height: SMALL_HEIGHT / 2,
    config,
    ...(isAlone && { title: { text: title } }),
    mark: { type: 'text', text: 'nothing to draw', fill: colours.soft.light, fontSize: LABEL_SIZE },
  };
  return spec as unknown as TopLevelSpec;
}

interface Layout {
  readonly columns: number;
  /** Pixels of one small chart. */
  readonly width: number;
  readonly height: number;
  /** Bars lie where their names are too long to stand side by side. */
  readonly direction: 'upright' | 'lying';
}

function layoutOf({ kind, facet, x, y }: Chart, { xs, facets }: ChartData): Layout {
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

function facetOf({ facets }: ChartData): Spec {
  const header = { title: null, labelAnchor: 'start' };
  return { field: 'facet', type: 'nominal', sort: facets, header };
}

function sizeOf(chart: Chart, { width, height, direction }: Layout): Spec {
  if (chart.kind === 'heat') {
    const labels = chartData(chart).marks.map(({ label }) => textWidth(label, LABEL_SIZE));
    return { width: { step: Math.max(44, ...labels.map((label) => label + 14)) }, height: { step: 30 } };
  }
  if (direction === 'lying') return { width: width - 160, height: { step: chart.color ? 14 : 26 } };
  const bars = chartData(chart).marks.length;
  return { width: chart.kind === 'bar' ? Math.min(width, Math.max(200, bars * BAR)) : width, height };
}

function marksOf(chart: Chart, data: ChartData, layout: Layout): Spec[] {
  const { kind, y } = chart;
  switch (kind) {
    case 'bar':
      // A bar stands for a figure by its length from 0, which a logarithm does not have.
      return y.scale === 'log' ? pointMarks(chart, data) : barMarks(chart, data, layout);
    case 'line':
      return lineMarks(chart, data, 'linear');
    case 'step':
      return lineMarks(chart, data, 'step-after');
    case 'point':
      return pointMarks(chart, data);
    case 'heat':
      return heatMarks(chart, data);
    default:
      return assertNever(kind);
  }
}

function lineMarks(chart: Chart, data: ChartData, interpolate: 'linear' | 'step-after'): Spec[] {
  const isDotted = interpolate === 'linear' && data.xs.length <= MOST_POINTS;
  const { color } = chart;
  const legend = legendOf(chart, data, isDotted ? 'point' : 'line');
  const line: Spec = {
    mark: { type: 'line', interpolate, strokeWidth: 2, clip: isClipped(chart), ...(!color && plain('stroke')) },
    encoding: {
      ...axesOf(chart, data),
      ...(color && {
        color: { ...colored(data), legend },
        strokeDash: { ...series(data), scale: scaleOf(data, dashes), legend },
      }),
    },
  };
  return isDotted ? [line, ...pointMarks(chart, data)] : [line];
}

function pointMarks(chart: Chart, data: ChartData): Spec[] {
  const legend = legendOf(chart, data, 'point');
  return [
    {
      mark: {
        type: 'point',
        filled: true,
        size: 55,
        opacity: 1,
        clip: isClipped(chart),
        ...(!chart.color && plain('fill')),
      },
      encoding: {
        ...axesOf(chart, data),
        description: { field: 'told' },
        ...(chart.color && {
          color: { ...colored(data), legend },
          shape: { ...series(data), scale: scaleOf(data, shapes), legend },
        }),
      },
    },
  ];
}

function barMarks(chart: Chart, data: ChartData, { direction }: Layout): Spec[] {
  const { color, x } = chart;
  const isGrouped = color !== undefined && color.field !== x.field;
  const [along, up] = direction === 'lying' ? ['y', 'x'] : ['x', 'y'];
  const place: Spec = {
    [along]: { ...xAxis({ ...x, type: 'ordinal' }, data), ...(direction === 'lying' && { axis: { title: x.title } }) },
    [up]: yAxis(chart, data),
    ...(isGrouped && { [`${along}Offset`]: { field: 'color', type: 'nominal', sort: data.colors } }),
  };
  const bars: Spec = {
    mark: { type: 'bar', cornerRadiusEnd: 2, clip: isClipped(chart), ...(!color && plain('fill')) },
    encoding: {
      ...place,
      description: { field: 'told' },
      ...(color && { color: { ...colored(data), legend: isGrouped ? legendOf(chart, data, 'point') : null } }),
    },
  };
  if (data.marks.length > MOST_LABELS) return [bars];
  const beside = direction === 'lying' ? { align: 'left', dx: 4 } : { baseline: 'bottom', dy: -3 };
  return [bars, ...readable({ fontSize: 10, ...beside }, { ...place, text: { field: 'label' } })];
}

function heatMarks(chart: Chart, data: ChartData): Spec[] {
  const { color } = chart;
  const isFigures = data.colors.every((value) => typeof value === 'number');
  const least = Math.min(...data.colors.map(Number));
  const most = Math.max(...data.colors.map(Number));
  const scale = isFigures
    ? { type: 'quantize', domain: [least, most], range: light(heatColours), nice: false, zero: false }
    : scaleOf(data, light(wordColours));
  const fill = color && {
    color: { field: 'color', type: isFigures ? 'quantitative' : 'nominal', scale, legend: null },
  };
  // The last two of the five colours are too strong for dark text.
  const isStrong = `datum.color > ${least + (most - least) * 0.6}`;
  const text = isFigures
    ? { condition: { test: isStrong, value: heatText.high.light }, value: heatText.low.light }
    : { value: heatText.low.light };
  const place: Spec = {
    x: {
      ...xAxis({ ...chart.x, type: 'ordinal' }, data),
      axis: { title: chart.x.title, labelAngle: 0, domain: false },
    },
    y: { field: 'y', type: 'ordinal', sort: null, axis: { title: chart.y.title, domain: false } },
  };
  return [
    {
      mark: { type: 'rect', stroke: colours.sheet.light, strokeWidth: 2, ...(!color && plain('fill')) },
      encoding: { ...place, description: { field: 'told' }, ...fill },
    },
    { mark: { type: 'text', fontSize: LABEL_SIZE }, encoding: { ...place, text: { field: 'label' }, fill: text } },
  ];
}

/** Text that can be read where it lies on lines. */
function readable(mark: Spec, encoding: Spec, data: Spec = {}): Spec[] {
  const around = { fill: colours.sheet.light, stroke: colours.sheet.light, strokeWidth: 3, strokeJoin: 'round' };
  return [around, { fill: colours.soft.light }].map((paint) => ({
    ...data,
    mark: { type: 'text', ...mark, ...paint },
    encoding,
  }));
}

/** The line that figures are compared with. */
function ruleOf({ rule, kind }: Chart, { direction }: Layout): Spec[] {
  if (!rule || kind === 'heat') return [];
  const [across, end] = direction === 'lying' ? ['x', 'y'] : ['y', 'x'];
  const at = { [across]: { datum: rule.y } };
  const beside = direction === 'lying' ? { baseline: 'bottom', dy: -3 } : { align: 'right', dy: -6 };
  return [
    {
      data: { values: [{}] },
      mark: { type: 'rule', stroke: colours.soft.light, strokeDash: [3, 3], strokeWidth: 1.25 },
      encoding: at,
    },
    ...readable(
      { fontSize: 10, ...beside },
      { ...at, [end]: { value: direction === 'lying' ? 0 : 'width' }, text: { field: 'label' } },
      { data: { values: [{ label: rule.label }] } },
    ),
  ];
}

function axesOf(chart: Chart, data: ChartData): Spec {
  return { x: xAxis(chart.x, data), y: yAxis(chart, data) };
}

function xAxis(axis: Axis, { xs }: ChartData): Spec {
  const { type, title } = axis;
  if (type !== 'quantitative') return { field: 'x', type, sort: null, axis: { title, labelAngle: 0 } };
  // What was measured is where the labels are; of many values, round ones are.
  const ticks = axis.scale === 'log' ? { values: xs.length <= 10 ? xs.map(Number) : logTicks(xs.map(Number)) } : {};
  const scale = { ...scaleOfAxis(axis), ...(axis.domain ? {} : { padding: 12 }) };
  return {
    field: 'x',
    type,
    scale: { ...scale, nice: false },
    axis: { title, grid: false, ...numberLabels, ...ticks },
  };
}

function yAxis({ y, kind }: Chart, { marks }: ChartData): Spec {
  const { type, title } = y;
  if (type !== 'quantitative') return { field: 'y', type, sort: null, axis: { title } };
  const values = marks.map((mark) => Number(mark.y));
  const ticks = y.scale === 'log' ? { values: logTicks(values) } : {};
  return {
    field: 'y',
    type,
    scale: { ...scaleOfAxis(y), ...(kind === 'bar' && y.scale !== 'log' && !y.domain && barScale(values)) },
    axis: { title, ...numberLabels, ...ticks },
  };
}

function scaleOfAxis({ scale = 'linear', domain }: Axis): Spec {
  return { type: scale, nice: !domain, ...(scale === 'linear' && { zero: false }), ...(domain && { domain }) };
}

/** From 0, with space for the figures at the ends of the bars. */
function barScale(values: readonly number[]): Spec {
  return { zero: true, nice: false, domainMax: Math.max(0, ...values) * 1.12 || 1 };
}

/** Round numbers in the range of all values, the fewer for each power of ten the more powers there are. */
function logTicks(values: readonly number[]): number[] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const steps = last - first <= 1 ? [1, 2, 3, 5, 7] : last - first <= 3 ? [1, 2, 5] : [1];
  const powers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  return powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`)));
}

const numberLabels = {
  labelExpr: `abs(datum.value) >= 1e5 ? format(datum.value, '~s') : format(datum.value, ',.4~r')`,
};

/** What is beyond an axis that a scenario has set is cut off. */
function isClipped({ x, y }: Chart): boolean {
  return x.domain !== undefined || y.domain !== undefined;
}

function series(data: ChartData): Spec {
  return { field: 'color', type: 'nominal', sort: data.colors };
}

function colored(data: ChartData): Spec {
  return { ...series(data), scale: scaleOf(data, light(seriesColours)) };
}

/** Begins again with the first where there are more values; dashes and shapes do so elsewhere than colours. */
function scaleOf({ colors }: ChartData, range: readonly unknown[]): Spec {
  return { domain: colors, range: colors.map((_, index) => range[index % range.length]) };
}

function light(all: readonly Colour[]): string[] {
  return all.map((one) => one.light);
}

function plain(property: 'fill' | 'stroke'): Spec {
  return { [property]: seriesColours[0]!.light };
}

function legendOf({ color }: Chart, { colors }: ChartData, symbol: 'line' | 'point'): Spec | null {
  if (!color) return null;
  const symbols =
    symbol === 'line'
      ? { symbolType: 'stroke', symbolSize: 260, symbolStrokeWidth: 2 }
      : // Dashes around a small shape would spoil it.
        { symbolStrokeWidth: 0 };
  const widest = Math.max(...colors.map((value) => textWidth(String(value), LABEL_SIZE)));
  const columns = Math.max(1, Math.floor(WIDTH / (widest + 34)));
  return { title: color.title, columns, ...symbols };
}

const config: Spec = {
  font: sansFont,
  view: { stroke: null },
  axis: {
    domainColor: colours.soft.light,
    gridColor: colours.line.light,
    tickColor: colours.soft.light,
    labelColor: colours.soft.light,
    titleColor: colours.ink.light,
    titleFontWeight: 'normal',
    titleFontSize: 12,
    titlePadding: 8,
    labelFontSize: LABEL_SIZE,
    labelPadding: 4,
    labelLimit: 260,
    labelOverlap: 'greedy',
    labelSeparation: 6,
    labelFlush: false,
    tickSize: 4,
  },
  axisX: { tickCount: 8 },
  axisY: { domain: false, ticks: false, tickCount: 5 },
  legend: {
    orient: 'top',
    direction: 'horizontal',
    titleOrient: 'left',
    titleColor: colours.soft.light,
    titleFontWeight: 'normal',
    titleFontSize: LABEL_SIZE,
    labelColor: colours.ink.light,
    labelFontSize: LABEL_SIZE,
    labelLimit: 320,
    symbolSize: 70,
    offset: 12,
  },
  header: {
    titleColor: colours.soft.light,
    titleFontWeight: 'normal',
    titleFontSize: LABEL_SIZE,
    labelColor: colours.ink.light,
    labelFontWeight: 600,
    labelFontSize: 12,
  },
  title: { anchor: 'start', color: colours.ink.light, fontSize: TITLE_SIZE, fontWeight: 600, offset: 14 },
};
