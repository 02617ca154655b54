import { describe, expect, it } from 'vitest';
import { compareAnswers } from '../../src/matrix/compare.js';
import { bitsOf, valueOfBits } from '../../src/matrix/work.js';
import { answer, answers, step } from './answers.js';

const baseline = answers([answer([step(1), step(2), step(3)]), answer([step(4), step(5, { gap: 0.125 }), step(6)])]);

describe('comparing answers', () => {
  it('finds nothing between equal ones, and between the first of them and all', () => {
    const nothing = { equalTokens: true, equalLogprobs: true, firstDifference: null, gap: null, values: null };
    expect(compareAnswers(baseline, answers([...baseline.answers]))).toEqual(nothing);
    expect(compareAnswers(baseline, answers(baseline.answers.slice(0, 1)))).toEqual(nothing);
  });

  it('finds the first other token, with the gap of the baseline there and both values', () => {
    const other = answers([baseline.answers[0]!, answer([step(4), step(7), step(8)])]);
    expect(compareAnswers(baseline, other)).toEqual({
      equalTokens: false,
      equalLogprobs: false,
      firstDifference: { request: 1, token: 1 },
      gap: 0.125,
      values: [step(5, { gap: 0.125 }), step(7)],
    });
  });

  it('takes another token for more than another bit before it', () => {
    const other = answers([
      answer([step(1, { logprob: -0.25 }), step(2), step(3)]),
      answer([step(4), step(5, { gap: 0.125 }), step(8)]),
    ]);
    expect(compareAnswers(baseline, other).firstDifference).toEqual({ request: 1, token: 2 });
  });

  it('finds one bit of a log-probability, also of one that was not chosen', () => {
    const nextUp = valueOfBits((BigInt(`0x${bitsOf(-0.5)}`) + 1n).toString(16));
    for (const changed of [step(2, { logprob: nextUp }), step(2, { gap: 0.25 + 2 ** -53 })]) {
      const other = answers([answer([step(1), changed, step(3)]), baseline.answers[1]!]);
      const found = compareAnswers(baseline, other);
      expect(found).toMatchObject({ equalTokens: true, equalLogprobs: false, gap: 0.25 });
      expect(found.firstDifference).toEqual({ request: 0, token: 1 });
    }
  });

  it('finds an answer that ends early or late, another hash, and another reason to end', () => {
    const second = baseline.answers[1]!;
    const early = compareAnswers(baseline, answers([answer([step(1), step(2)]), second]));
    expect(early).toMatchObject({ equalTokens: false, firstDifference: { request: 0, token: 2 }, gap: 0.25 });
    const late = compareAnswers(baseline, answers([answer([step(1), step(2), step(3), step(9)]), second]));
    expect(late).toMatchObject({ equalTokens: false, firstDifference: { request: 0, token: 3 }, gap: null });
    for (const rest of [{ hash: 'another' }, { finishReason: 'stop' }]) {
      const found = compareAnswers(baseline, answers([answer([step(1), step(2), step(3)], rest), second]));
      expect(found).toMatchObject({ equalTokens: false, firstDifference: { request: 0, token: 3 }, gap: null });
    }
  });

  it('does not take no answers for equal ones', () => {
    expect(() => compareAnswers(baseline, answers([]))).toThrow('0 answers against 2');
  });
});
