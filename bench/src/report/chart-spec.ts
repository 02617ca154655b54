import type { TopLevelSpec } from 'vega-lite';
import type { Chart } from '../study/scenario.js';
import { type ChartData, chartData } from './chart-data.js';
import { GAP, LABEL_SIZE, layoutOf, SMALL_HEIGHT, type Spec, sizeOf, TITLE_SIZE, WIDTH } from './chart-layout.js';
import { marksOf, ruleOf } from './chart-marks.js';
import { colours, sansFont } from './theme.js';

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

function facetOf({ facets }: ChartData): Spec {
  const header = { title: null, labelAnchor: 'start' };
  return { field: 'facet', type: 'nominal', sort: facets, header };
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
