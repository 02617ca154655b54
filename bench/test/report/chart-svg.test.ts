import { describe, expect, it, vi } from 'vitest';
import { chartData } from '../../src/report/chart-data.js';
import { inlineSvg, standaloneSvg } from '../../src/report/chart-svg.js';
import { darkChartRules } from '../../src/report/theme.js';
import type { Chart } from '../../src/study/scenario.js';
import { charts } from './study-files.js';

const byName = (name: string) => charts.find((chart) => chart.name === name)!;

describe('the picture of a chart', () => {
  it.each(charts.map((chart) => [chart.kind, chart.name, chart] as const))(
    'is drawn for %s (%s), with nothing to warn of, and has the same bytes whatever was drawn before',
    async (_, name, chart) => {
      const warn = vi.spyOn(console, 'warn');
      const [inline, alone] = [await inlineSvg(chart), await standaloneSvg(chart)];
      await inlineSvg(byName(name === 'offline' ? 'spans' : 'offline'));
      expect(await inlineSvg(chart)).toBe(inline);
      expect(await standaloneSvg(chart)).toBe(alone);
      expect(warn).not.toHaveBeenCalled();
      warn.mockRestore();
      expect(inline.match(/<svg/g)).toHaveLength(1);
      expect(inline).toContain(`role="img" aria-labelledby="${name}-title ${name}-caption"`);
      expect(inline).not.toMatch(/NaN|undefined|Infinity/);
    },
  );

  it('has a mark for each row, and says which when pointed at', async () => {
    const svg = await inlineSvg(byName('injection'));
    expect(svg.match(/<title>mismatch rate|<title>policy/g)).toHaveLength(6);
    expect(svg).toContain('<title>policy: auto, mismatch rate: 0.01, recomputed / committed: 0.3</title>');
  });

  it('has no colour that a dark page does not change', async () => {
    const rules = darkChartRules('.chart');
    for (const chart of charts) {
      const used = (await inlineSvg(chart)).matchAll(/ (fill|stroke)="([^"]+)"/g);
      for (const [, property, colour] of used)
        if (colour !== 'none' && colour !== 'transparent') expect(rules).toContain(`[${property}="${colour}"]`);
    }
  });

  it('has ids of its own, so that many share a page', async () => {
    const svgs = await Promise.all(charts.map(inlineSvg));
    const ids = svgs.flatMap((svg) => [...svg.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    expect(new Set(ids).size).toBe(ids.length);
    for (const svg of svgs) for (const [, id] of svg.matchAll(/url\(#([^)]+)\)/g)) expect(svg).toContain(` id="${id}"`);
  });

  it('escapes what stands in its rows and titles', async () => {
    const evil = '<script>alert("&")</script>';
    const chart: Chart = {
      ...byName('spans'),
      title: evil,
      caption: evil,
      rows: [{ text: evil, span: evil, tokens: 1 }],
      color: { field: 'span', title: evil },
    };
    for (const svg of [await inlineSvg(chart), await standaloneSvg(chart)]) {
      expect(svg).not.toContain('<script');
      expect(svg).toContain('&lt;script&gt;');
    }
  });

  it('reads columns whose names mean something elsewhere', async () => {
    const rows = [
      { "a.b['c']": 1, 'ms [p99.9]': 2 },
      { "a.b['c']": 2, 'ms [p99.9]': 4 },
    ];
    const [x, y] = ["a.b['c']", 'ms [p99.9]'].map((field) => ({ field, title: field, type: 'quantitative' as const }));
    const svg = await inlineSvg({ ...byName('injection'), rows, x: x!, y: y!, color: undefined } as unknown as Chart);
    expect(svg.match(/<title>a\.b/g)).toHaveLength(2);
  });

  it('draws bars on a logarithm as points, which need no zero', async () => {
    const chart = byName('one-of-eleven');
    const svg = await inlineSvg({ ...chart, y: { ...chart.y, scale: 'log' } });
    expect(svg).not.toContain('mark-rect');
    expect(svg).toContain('mark-symbol');
  });

  it('draws where there is nothing to draw', async () => {
    for (const chart of charts) expect(await inlineSvg({ ...chart, rows: [] })).toContain('>nothing to draw</text>');
  });
});

describe('the data of a chart', () => {
  it('counts what the axes have no place for', () => {
    const { marks, undrawnCount } = chartData(byName('injection'));
    expect([marks.length, undrawnCount]).toEqual([6, 2]);
  });

  it('keeps values in the order in which they come', () => {
    const { xs, colors, facets } = chartData(byName('online-ttft'));
    expect(colors).toEqual(['ordinary', 'deterministic']);
    expect(facets).toEqual(['arrivals: 2 requests/s', 'arrivals: 4 requests/s']);
    expect(xs.length).toBeGreaterThan(30);
  });

  it('says which column rows lack', () => {
    expect(() => chartData({ ...byName('spans'), rows: [{ text: 'a', span: 'b' }] })).toThrow('rows without tokens');
  });
});
