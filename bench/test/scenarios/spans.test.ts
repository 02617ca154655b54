import { cpuFeatures } from '@stet/backend-cpu';
import { describe, expect, it } from 'vitest';
import { spans } from '../../src/scenarios/spans.js';
import {
  differencesPerThousand,
  endedShares,
  firstSpan,
  nextDifference,
  type Span,
  shareCut,
  spanQuantile,
} from '../../src/scenarios/spans-compare.js';
import { measureSpans, type SpanMeasure } from '../../src/scenarios/spans-measure.js';
import { inSmallStudy, study } from './support/small-study.js';

const cpu = cpuFeatures();
const ended = (tokens: number): Span => ({ tokens, end: 'difference' });
const cut = (tokens: number): Span => ({ tokens, end: 'cut' });

describe('spans of two answers', () => {
  it('end at the first difference, or where the answers do', () => {
    expect(firstSpan([5, 6, 7], [5, 6, 7])).toEqual(cut(3));
    expect(firstSpan([5, 6, 7], [4, 6, 7])).toEqual(ended(0));
    expect(firstSpan([5, 6, 7], [5, 6, 8])).toEqual(ended(2));
    expect(() => firstSpan([5, 6], [5])).toThrow('answers of 2 and 1 tokens');
  });

  it('have a next difference 1 token on where the very next token differs, and none where they meet again', () => {
    expect(nextDifference([1, 2, 3, 4], [1, 9, 9, 4], 1)).toBe(1);
    expect(nextDifference([1, 2, 3, 4], [1, 9, 3, 9], 1)).toBe(2);
    expect(nextDifference([1, 2, 3, 4], [1, 9, 3, 4], 1)).toBeNull();
    expect(nextDifference([1, 2], [1, 9], 1)).toBeNull();
  });

  it('have quantiles by nearest rank, unknown where the span was cut', () => {
    const four = [ended(30), cut(96), ended(10), ended(20)];
    expect([0.25, 0.5, 0.75].map((q) => spanQuantile(four, q))).toEqual([10, 20, 30]);
    expect(spanQuantile(four, 0.76)).toBeUndefined();
    expect(spanQuantile([cut(96)], 0.1)).toBeUndefined();
    expect(shareCut(four)).toBe(0.25);
  });

  it('count differences by the tokens that could have differed', () => {
    // 10 + 1 and 89 tokens, one difference.
    expect(differencesPerThousand([ended(10), cut(89)])).toBe(10);
    expect(differencesPerThousand([cut(96)])).toBe(0);
  });

  it('give the share that has ended as steps from the first token to the last', () => {
    expect(endedShares([ended(3), ended(3), ended(7), cut(10)])).toEqual([
      { tokens: 0, share: 0 },
      { tokens: 3, share: 0.5 },
      { tokens: 7, share: 0.75 },
      { tokens: 10, share: 0.75 },
    ]);
    expect(endedShares([ended(0), cut(10)])[0]).toEqual({ tokens: 0, share: 0.5 });
  });
});

describe('the result of spans', () => {
  const equal: SpanMeasure = { kind: 'greedy', first: cut(96), second: null, corrected: null, rollbacks: 0 };
  const differing: SpanMeasure = { ...equal, first: ended(10), second: 1, corrected: cut(96) };
  const control: SpanMeasure = { ...equal, kind: 'deterministic', rollbacks: 2 };
  const all = (measures: readonly SpanMeasure[]) =>
    spans.result(new Map([['prompts 0 to 3', measures]]), { ...study, rounds: 1 });

  it('says what was found in ordinary requests, and that deterministic ones stayed equal', () => {
    const { findings, failure, comparisons, tables } = all([
      equal,
      differing,
      { ...differing, kind: 'sampled' },
      control,
    ]);
    expect(findings[0]).toMatch(/^2 of 3 ordinary requests got other tokens .* by token 11; 33.3 % never differed/);
    expect(findings.at(-1)).toMatch(/^1 of 1 deterministic requests .* rolled back 2 times/);
    expect(failure).toBeUndefined();
    expect(comparisons!.map(({ ours }) => ours)).toEqual([10, 0.5, 1]);
    expect(tables[0]!.rows.filter(({ request }) => request === 'deterministic')).toHaveLength(1);
  });

  it('says so where nothing differed, and claims no span that it has not seen end', () => {
    const { findings, comparisons } = all([equal, { ...equal, kind: 'sampled' }, control]);
    expect(findings[0]).toMatch(/^None of 2 ordinary requests .* within 96 tokens/);
    // Half of the paper's answers differ after 105 to 187 tokens; these had 96 to differ in.
    expect(comparisons!.map(({ what }) => what)).toEqual(['share of greedy requests that never differ']);
  });

  it('fails where a deterministic request got another answer', () => {
    const wrong: SpanMeasure = { ...differing, kind: 'deterministic' };
    expect(all([equal, { ...equal, kind: 'sampled' }, control, wrong]).failure).toMatch(
      /^1 of 2 deterministic requests/,
    );
  });
});

describe.skipIf(!cpu.available)(`measured spans${cpu.available ? '' : ` (skipped: ${cpu.reason})`}`, () => {
  it('end early in ordinary requests on a fast schedule that is often wrong, and never in deterministic ones', async () => {
    const one = { firstPrompt: 0, promptCount: 2, outputTokens: 16, clients: 7, mismatchRate: 0.3 };
    const measured = await inSmallStudy((context) => measureSpans(context, one));
    expect(measured.map(({ kind }) => kind)).toEqual([
      'greedy',
      'sampled',
      'deterministic',
      'greedy',
      'sampled',
      'deterministic',
    ]);
    const greedy = measured.filter(({ kind }) => kind === 'greedy');
    for (const { first, corrected } of greedy) {
      expect(first.end).toBe('difference');
      expect(corrected).not.toBeNull();
    }
    const deterministic = measured.filter(({ kind }) => kind === 'deterministic');
    for (const { first, corrected } of deterministic) {
      expect(first).toEqual(cut(16));
      expect(corrected).toBeNull();
    }
    expect(deterministic.some(({ rollbacks }) => rollbacks > 0)).toBe(true);
  });
});
