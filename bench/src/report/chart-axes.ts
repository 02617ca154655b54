import type { Axis, Chart } from '../study/scenario.js';
import type { ChartData } from './chart-data.js';
import type { Spec } from './chart-layout.js';

export function axesOf(chart: Chart, data: ChartData): Spec {
  return { x: xAxis(chart.x, data), y: yAxis(chart, data) };
}

export function xAxis(axis: Axis, { xs }: ChartData): Spec {
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

export function yAxis({ y, kind }: Chart, { marks }: ChartData): Spec {
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
  // On a logarithm, nice ends are powers of ten, far away from most values.
  if (scale === 'log') return { type: scale, nice: false, ...(domain ? { domain } : { padding: 10 }) };
  return { type: scale, nice: !domain, zero: false, ...(domain && { domain }) };
}

/** From 0, with space for the figures at the ends of the bars. */
function barScale(values: readonly number[]): Spec {
  return { zero: true, nice: false, domainMax: Math.max(0, ...values) * 1.12 || 1 };
}

function stepsFor(powers: number): readonly number[] {
  if (powers <= 1) return [1, 2, 3, 5, 7];
  if (powers <= 2) return [1, 2, 5];
  return powers <= 4 ? [1, 3] : [1];
}

/** Round numbers in the range of all values, the fewer for each power of ten the more powers there are. */
function logTicks(values: readonly number[]): number[] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const steps = stepsFor(last - first);
  const powers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  return powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`)));
}

const numberLabels = {
  labelExpr: `abs(datum.value) >= 1e5 ? format(datum.value, '~s') : format(datum.value, ',.4~r')`,
};

/** What is beyond an axis that a scenario has set is cut off. */
export function isClipped({ x, y }: Chart): boolean {
  return x.domain !== undefined || y.domain !== undefined;
}
