import { describe, expect, it } from 'vitest';
import { agreement } from '../../src/models/agreement.js';
import type { GoldenCase } from '../../src/models/golden.js';
import { markdownTable, replaceSection } from '../../src/models/markdown.js';

/** Two prompt tokens and three outputs over a vocabulary of 3: rows of positions 0 to 3. */
const golden: GoldenCase = {
  promptIds: [0, 1],
  outputIds: [2, 0, 1],
  gaps: [1, 0.02, 0.5],
  checks: [
    {
      position: 1,
      scale: 'logits',
      values: [
        [0, 1],
        [2, 3],
      ],
    },
  ],
};
const rows = (second: readonly number[]) => Float32Array.from([9, 0, 0, 1, 2, 3.25, ...second, 0, 1, 0]);

describe('agreement with recorded answers', () => {
  it('counts every greedy id where all agree', () => {
    const found = agreement([golden], [rows([5, 4, 3])], 3);
    expect(found).toEqual({ largestDifference: 0.25, agreeing: 3, total: 3, disagreements: [] });
  });

  it('stops a case at its first other id, and says whether the rounding explains the gap', () => {
    const explained = agreement([golden, golden], [rows([5, 4, 3]), rows([4, 4.5, 3])], 3);
    expect(explained).toMatchObject({ agreeing: 4, total: 6 });
    expect(explained.disagreements).toEqual([{ step: 1, gap: 0.02, cause: 'explained' }]);
    const exact = { ...golden, checks: [{ position: 1, scale: 'logits' as const, values: [[2, 3.25] as const] }] };
    expect(agreement([exact], [rows([4, 4.5, 3])], 3).disagreements).toEqual([
      { step: 1, gap: 0.02, cause: 'unexplained' },
    ]);
  });

  it('compares log-probabilities where those were recorded', () => {
    const values = [[0, Math.log(1 / 3)] as const, [2, Math.log(1 / 3) + 0.5] as const];
    const uniform = {
      ...golden,
      outputIds: [],
      checks: [{ position: 0, scale: 'log-probabilities' as const, values }],
    };
    expect(agreement([uniform], [new Float32Array(6)], 3).largestDifference).toBeCloseTo(0.5, 12);
  });
});

describe('sections of a page', () => {
  it('are replaced between their marks, and nowhere else', () => {
    const page = 'a\n<!-- t:begin -->\nold\n<!-- t:end -->\nz';
    expect(replaceSection(page, 't', 'new')).toBe('a\n<!-- t:begin -->\n\nnew\n\n<!-- t:end -->\nz');
    expect(() => replaceSection(page, 'other', 'new')).toThrow('other');
  });

  it('hold tables with the columns of the first row', () => {
    expect(markdownTable([{ a: 1, b: 'x' }])).toBe('| a | b |\n| --- | --- |\n| 1 | x |');
  });
});
