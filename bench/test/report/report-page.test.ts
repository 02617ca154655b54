import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { reportPage } from '../../src/report/report-page.js';
import { writeReport } from '../../src/report/write-report.js';
import { charts, studyFile, timedPart } from './study-files.js';

const all = charts.map((chart) => timedPart(1, { name: `of-${chart.name}`, title: chart.title, charts: [chart] }));

describe('the report', () => {
  it('needs no other file, asks nobody for anything and runs no program', async () => {
    const page = await reportPage(studyFile({ scenarios: all }));
    expect(page).toContain(`content="default-src 'none'; style-src 'unsafe-inline'; img-src data:`);
    expect(page).not.toMatch(/<script|<iframe|<object|<img|@import| src=| on[a-z]+=/i);
    for (const [, target] of page.matchAll(/ (?:href|xlink:href)="([^"]*)"/g)) expect(target).toMatch(/^(#|data:,$)/);
    for (const [, target] of page.matchAll(/url\(([^)]*)\)/g)) expect(target).toMatch(/^#/);
    for (const [url] of page.matchAll(/https?:[^"' )]*/g)) expect(url).toMatch(/^http:\/\/www\.w3\.org\//);
  });

  it('escapes all that comes from a file', async () => {
    const evil = `</style></title><script>alert('&')</script>"`;
    const [comparison] = timedPart(1).comparisons!;
    const chart = { ...charts[0]!, title: evil, caption: evil };
    const part = timedPart(1, {
      ...{ name: evil, title: evil, question: evil, paperFigure: evil, workload: evil, failure: evil },
      findings: [evil, evil],
      tables: [{ title: evil, rows: [{ [evil]: evil, n: 1 }] }],
      charts: [chart],
      comparisons: [{ ...comparison!, what: evil, source: evil, note: evil }],
    });
    const file = studyFile();
    const page = await reportPage(
      studyFile({
        ...{ device: evil, date: evil, scenarios: [part], versions: { [evil]: evil } },
        study: { ...file.study, model: evil, dataset: evil },
        model: { ...file.model, name: evil, fingerprint: evil },
        machine: { ...file.machine, cpu: evil, os: evil },
      }),
    );
    expect(page).not.toContain('<script');
    expect(page.match(/<\/style>/g)).toHaveLength(1);
    expect(page.match(/<\/title>/g)!.length).toBe(page.match(/<title[ >]/g)!.length);
    expect(page).not.toMatch(/="[^"]*alert\('/);
  });

  it('leads from its contents to each part, by ids that are there once', async () => {
    const page = await reportPage(studyFile({ scenarios: all }));
    const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [, id] of page.matchAll(/ href="#([^"]*)"/g)) expect(ids).toContain(id);
    const nav = page.slice(page.indexOf('<nav'), page.indexOf('</nav>'));
    expect(nav.match(/<li>/g)).toHaveLength(all.length + 3);
  });

  it('puts the first finding of each scenario in front, and all of them in its part', async () => {
    const page = await reportPage(studyFile());
    const summary = page.slice(page.indexOf('id="summary"'), page.indexOf('id="timed"'));
    expect(summary).toContain('A large one takes four times as long as a small one.');
    expect(summary).not.toContain('A second finding.');
    expect(summary).toContain('2 figures beside theirs: 1 better, 1 worse.');
    expect(page.slice(page.indexOf('id="timed"'))).toContain('A second finding.');
  });

  it('says what was run and on what', async () => {
    const page = await reportPage(studyFile());
    for (const fact of [
      'quick, seed 42',
      '5.5 million parameters',
      'stet1-0123456789abcdef',
      'Some CPU, 2 cores, 8 GiB',
    ])
      expect(page).toContain(fact);
    expect(page).toContain('<dt>Date</dt><dd>2026-11-30 10:20 UTC</dd>');
    expect(page).toContain('<dt>Took</dt><dd>4 min 12 s</dd>');
  });

  it('warns of a study mode, a GPU that is none and a busy machine, and of nothing else', async () => {
    const { study } = studyFile();
    const mode = await reportPage(studyFile({ study: { ...study, fast: 'batch-shaped' } }));
    expect(mode).toContain('Study mode, not a speed');
    const gpu = await reportPage(studyFile({ device: 'Google SwiftShader, Vulkan' }));
    expect(gpu).toContain('The GPU is a program on the CPU');
    const busy = await reportPage(studyFile({ loadBefore: 4 }));
    expect(busy).toContain('The machine was busy');
    expect(await reportPage(studyFile())).not.toContain('class="callout');
  });

  it('shows in front what was not as it must be', async () => {
    const page = await reportPage(studyFile({ scenarios: [timedPart(1, { failure: 'three rows differ' })] }));
    const header = page.slice(page.indexOf('<header>'), page.indexOf('</header>'));
    expect(header).toContain('How long it takes: three rows differ');
  });

  it('says how much of a chart is not drawn', async () => {
    const chart = charts.find(({ name }) => name === 'injection')!;
    expect(await reportPage(studyFile({ scenarios: [timedPart(1, { charts: [chart] })] }))).toContain(
      'Not drawn: 2 figures',
    );
  });

  it('is written with a picture of each chart and the comparison with the paper', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stet-report-'));
    try {
      const file = studyFile({ scenarios: all });
      const path = await writeReport(join(folder, 'new'), file);
      expect(path).toBe(join(folder, 'new', 'report.html'));
      expect(readFileSync(path, 'utf8')).toBe(await reportPage(file));
      const names = charts.map(({ name }) => `${name}.svg`);
      expect(readdirSync(join(folder, 'new')).sort()).toEqual([...names, 'paper.md', 'report.html'].sort());
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
