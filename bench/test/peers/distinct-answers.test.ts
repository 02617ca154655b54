import { describe, expect, it } from 'vitest';
import { type Crowd, crowdsOf } from '../../src/peers/crowds.js';
import {
  type Answerer,
  distinctAnswers,
  distinctAnswersRow,
  findDistinctAnswers,
} from '../../src/peers/distinct-answers.js';

describe('distinctAnswers', () => {
  it('finds one answer, and no difference, where all are equal', () => {
    expect(distinctAnswers([[1, 2, 3]])).toEqual({ distinct: 1 });
    expect(
      distinctAnswers([
        [1, 2, 3],
        [1, 2, 3],
      ]),
    ).toEqual({ distinct: 1 });
  });

  it('counts answers that differ, and says where the first two part', () => {
    const answers = [
      [1, 2, 3, 4],
      [1, 2, 3, 5],
      [1, 2, 9, 4],
      [1, 2, 3, 5],
    ];
    expect(distinctAnswers(answers)).toEqual({ distinct: 3, firstDifference: 2 });
    expect(distinctAnswers([...answers].reverse())).toEqual({ distinct: 3, firstDifference: 2 });
  });

  it('tells tokens apart by their ids, not by their digits', () => {
    expect(
      distinctAnswers([
        [1, 23],
        [12, 3],
      ]),
    ).toEqual({ distinct: 2, firstDifference: 0 });
  });

  it('takes an answer that another begins with for another', () => {
    expect(distinctAnswers([[1, 2], [1, 2, 3], []])).toEqual({ distinct: 3, firstDifference: 0 });
    expect(
      distinctAnswers([
        [1, 2, 3],
        [1, 2],
      ]),
    ).toEqual({ distinct: 2, firstDifference: 2 });
  });

  it('finds nothing in nothing', () => {
    expect(distinctAnswers([])).toEqual({ distinct: 0 });
  });
});

describe('findDistinctAnswers', () => {
  const text = Array.from({ length: 100 }, (_, i) => i);
  const crowds = crowdsOf(text, { targets: 50, outputTokens: 8, seed: 1 });
  const targetsOf = ({ lanes }: Crowd) => lanes.filter(({ kind }) => kind === 'target');
  const answers = (crowd: Crowd, last: number) =>
    targetsOf(crowd).map(() => [...Array(crowd.target.outputTokens - 1).fill(7), last]);
  const steady: Answerer = {
    name: 'steady',
    kind: 'ours',
    promise: 'equal',
    answer: async (crowd) => answers(crowd, 0),
    rollbacks: () => 3,
  };
  const moody: Answerer = {
    name: 'moody',
    kind: 'peer',
    promise: 'none',
    answer: async (crowd) => answers(crowd, crowd.lanes.length > 1 ? 1 : 0),
  };
  const wordless: Answerer = { name: 'wordless', kind: 'peer', promise: 'none', answer: async () => [[7]] };

  it('has a row for everybody who answered each of the equal requests', async () => {
    const lines: string[] = [];
    const { rows, failed } = await findDistinctAnswers([steady, moody, wordless], crowds, (line) => lines.push(line));
    expect(rows).toEqual([
      { contender: 'steady', requests: 50, distinct: 1, rollbacks: 3 },
      { contender: 'moody', requests: 50, distinct: 2, firstDifference: 7 },
    ]);
    expect(failed.get('wordless')).toMatch(/answers of 1 tokens, expected 1 of 8/);
    expect(lines).toContain(`SKIPPED wordless: ${failed.get('wordless')}`);
  });

  it('names those alone who promised equal answers and gave others', async () => {
    const liar: Answerer = { ...moody, name: 'liar', promise: 'equal' };
    const { broken } = await findDistinctAnswers([steady, moody, liar], crowds, () => {});
    expect(broken).toEqual(['liar']);
  });

  it('does not believe too few answers of ours', async () => {
    const few: Answerer = { ...steady, answer: async () => [] };
    await expect(findDistinctAnswers([few], crowds, () => {})).rejects.toThrow(/expected 1 of 8/);
  });

  it('shows in a table that there is no difference, or where it is', async () => {
    const { rows } = await findDistinctAnswers([steady, moody], crowds, () => {});
    expect(rows.map(distinctAnswersRow)).toEqual([
      {
        contender: 'steady',
        'equal requests': 50,
        'different answers': 1,
        'first difference': 'none',
        rollbacks: 3,
      },
      {
        contender: 'moody',
        'equal requests': 50,
        'different answers': 2,
        'first difference': 'token 7',
        rollbacks: '',
      },
    ]);
  });
});
