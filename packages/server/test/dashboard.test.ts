import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Family, parseExposition } from './support/exposition.js';
import { serve } from './support/harness.js';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly refId: string }[];
}

const read = (name: string) => readFileSync(new URL(`../../../deploy/${name}`, import.meta.url), 'utf8');
const dashboard = JSON.parse(read('grafana-dashboard.json')) as { uid: string; panels: readonly Panel[] };
const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const alerts = [...read('stet-alerts.yml').matchAll(/^ +expr: (.+)$/gm)].map(([, expr]) => expr!);

async function familiesOfAServer(): Promise<Map<string, Family>> {
  const { server } = await serve();
  return parseExposition(await (await fetch(`${server.url}/metrics`)).text());
}

/** Every metric that an expression names. */
function metricsOf(expression: string): string[] {
  return [...expression.matchAll(/\b(?:stet|process|nodejs)_[a-z0-9_]+/g)].map(([name]) => name);
}

function familyOf(families: Map<string, Family>, name: string): Family | undefined {
  return families.get(name) ?? families.get(name.replace(/_bucket$/, ''));
}

describe('the dashboard and the alerts', () => {
  it('ask for metrics that a server has, each as its type wants', async () => {
    const families = await familiesOfAServer();
    expect(expressions.length).toBeGreaterThan(40);
    expect(alerts).toHaveLength(5);
    for (const expression of [...expressions, ...alerts]) {
      const names = metricsOf(expression);
      expect(names.length, expression).toBeGreaterThan(0);
      for (const name of names) {
        const family = familyOf(families, name);
        expect(family, `${name} in ${expression}`).toBeDefined();
        const isOverTime = new RegExp(`(?:rate|increase)\\(${name}(?:\\{[^}]*\\})?\\[`).test(expression);
        expect(isOverTime, expression).toBe(family!.type !== 'gauge');
        expect(name.endsWith('_bucket'), expression).toBe(family!.type === 'histogram');
      }
    }
  });

  it('leave out no metric of the server', async () => {
    const shown = new Set([...expressions, ...alerts].flatMap(metricsOf).map((name) => name.replace(/_bucket$/, '')));
    const own = [...(await familiesOfAServer()).keys()].filter((name) => name.startsWith('stet_'));
    // It names what is served, in the choice of the instance.
    expect(own.filter((name) => !shown.has(name))).toEqual(['stet_info']);
    expect(read('grafana-dashboard.json')).toContain('label_values(stet_info, instance)');
  });

  it('balance their brackets, and lay out panels that do not overlap', () => {
    for (const expression of [...expressions, ...alerts]) {
      for (const [open, close] of ['()', '{}', '[]'].map((pair) => pair.split('') as [string, string]))
        expect(expression.split(open).length, expression).toBe(expression.split(close).length);
    }
    const { panels } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const places = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
      expect(x + w).toBeLessThanOrEqual(24);
      return Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`);
    });
    expect(new Set(places).size).toBe(places.length);
  });

  it('are read by Prometheus from where the server listens', () => {
    const config = read('prometheus.yml');
    expect(config).toContain('targets: ["127.0.0.1:8642"]');
    expect(config).toContain('metrics_path: /metrics');
    expect(config).toContain('- stet-alerts.yml');
  });
});
