import { describe, expect, it } from 'vitest';
import { paperPage } from '../../src/report/paper-page.js';
import { judge } from '../../src/report/verdict.js';
import type { PaperComparison } from '../../src/study/scenario.js';
import { studyFile, timedPart } from './study-files.js';

const higher = { what: 'throughput', source: 'SOSP, figure 10', better: 'higher' } as const;

describe('the verdict beside the paper', () => {
  it.each<[Partial<PaperComparison>, string]>([
    [{ theirs: 0.8, ours: 0.9 }, 'better by 13 %'],
    [{ theirs: 0.8, ours: 0.6 }, 'worse by 25 %'],
    [{ theirs: 0.8, ours: 0.81 }, 'alike'],
    [{ theirs: 0.8, ours: 0.79 }, 'alike'],
    [{ theirs: 1, ours: 3 }, 'better, 3 times'],
    [{ theirs: 3, ours: 1 }, 'worse, 3 times'],
    [{ better: 'lower', theirs: 10, ours: 5.5 }, 'better by 45 %'],
    [{ better: 'lower', theirs: 10, ours: 15 }, 'worse by 50 %'],
    [{ theirs: [0.7, 0.9], ours: 0.8 }, 'alike'],
    [{ theirs: [0.7, 0.9], ours: 0.95 }, 'better by 6 %'],
    [{ theirs: [0.7, 0.9], ours: 0.35 }, 'worse, 2 times'],
    [{ better: 'lower', theirs: 0, ours: 0 }, 'alike'],
    [{ better: 'lower', theirs: 0.1, ours: 0 }, 'better'],
    [{ better: 'lower', theirs: 0, ours: 0.1 }, 'worse'],
    [{ theirs: 1, ours: Number.NaN }, 'not measured here'],
    [{ theirs: 1, ours: null as unknown as number }, 'not measured here'],
  ])('of %o is %s', (comparison, words) => {
    expect(judge({ ...higher, theirs: 1, ours: 1, ...comparison }).words).toBe(words);
  });
});

describe('the page beside the paper', () => {
  const page = paperPage([studyFile()]);
  const sectionOf = (text: string, title: string) => text.split(`## ${title}\n\n`)[1]!.split('\n\n## ')[0]!;

  it('puts each figure where it belongs, the worse as well as the better', () => {
    expect(sectionOf(page, 'Where we are better')).toContain(
      '| large over small (timed) | 5 | 4 | lower | better by 20 % | SOSP, figure 9 |  |',
    );
    expect(sectionOf(page, 'Where we are worse')).toContain(
      '| throughput at 10 % (timed) | 0.71 to 0.97 | 0.6 | higher | worse by 15 % | SOSP, figure 10 | a CPU has no arithmetic to spare |',
    );
    expect(sectionOf(page, 'Where we are alike')).toBe('Nowhere.');
    expect(page).toContain('2 figures beside theirs: 1 better, 1 worse.');
  });

  it('says what cannot be compared, and why', () => {
    const [comparison] = timedPart(1).comparisons!;
    const scenarios = [
      timedPart(1, { name: 'own', title: 'A question of ours', comparisons: [] }),
      timedPart(1, { name: 'lost', comparisons: [{ ...comparison!, ours: Number.NaN }] }),
    ].map(({ paperFigure, ...part }, index) => (index === 0 ? part : { ...part, paperFigure: paperFigure! }));
    const text = sectionOf(paperPage([studyFile({ scenarios })]), 'What cannot be compared');
    expect(text).toContain('- A question of ours (own): the paper does not ask it.');
    expect(text).toContain('- large over small (lost, tales on cpu): not measured in this run.');
  });

  it('tells several runs apart, and warns of those that need it', () => {
    const { study } = studyFile();
    const text = paperPage([studyFile(), studyFile({ study: { ...study, fast: 'batch-shaped' } })]);
    expect(text).toContain('| large over small (timed) | tales on cpu | 5 |');
    expect(text).toContain('| large over small (timed) | tales on cpu, batch-shaped | 5 |');
    expect(text).toContain('**Study mode, not a speed.**');
  });

  it('keeps a table whole whatever stands in it', () => {
    const [comparison] = timedPart(1).comparisons!;
    const scenarios = [timedPart(1, { comparisons: [{ ...comparison!, note: 'a | b\nc' }] })];
    expect(paperPage([studyFile({ scenarios })])).toContain('| a \\| b c |');
  });
});
