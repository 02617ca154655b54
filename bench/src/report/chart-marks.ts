import { assertNever } from '@stet/backend';
import type { Chart } from '../study/scenario.js';
import { axesOf, isClipped, xAxis, yAxis } from './chart-axes.js';
import type { ChartData } from './chart-data.js';
import { LABEL_SIZE, type Layout, type Spec, WIDTH } from './chart-layout.js';
import { textWidth } from './text-width.js';
import { type Colour, colours, heatColours, heatText, seriesColours, wordColours } from './theme.js';

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

/** What stands for the rows of a chart, in layers. */
export function marksOf(chart: Chart, data: ChartData, layout: Layout): Spec[] {
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
export function ruleOf({ rule, kind }: Chart, { direction }: Layout): Spec[] {
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
