import { describe, expect, it } from 'vitest';
import { type Answer, compareAnswers, firstDifference } from '../src/run/compare.js';

function answer(hash: string, words: readonly string[], text = words.join('')): Answer {
  return { tokens: words.map((word) => ({ token: word.length * 100 + word.charCodeAt(0), text: word })), text, hash };
}

describe('the comparison of two answers', () => {
  it('finds the first token that differs or that one of them lacks', () => {
    expect(firstDifference([1, 2, 3], [1, 2, 3])).toBeUndefined();
    expect(firstDifference([1, 2, 3], [1, 5, 3])).toBe(1);
    expect(firstDifference([1, 2], [1, 2, 3])).toBe(2);
  });

  it('says that equal ones are equal, with their length and hashes', () => {
    const one = answer('aa', ['The', ' cat']);
    expect(compareAnswers(one, one)).toEqual({ kind: 'equal', tokenCount: 2, hashes: ['aa', 'aa'] });
    expect(() => compareAnswers(one, { ...one, hash: 'bb' })).toThrow('the hashes of equal tokens are equal');
  });

  it('places the token that differs in both texts', () => {
    const verdict = compareAnswers(answer('aa', ['The', ' cat', ' sat']), answer('bb', ['The', ' crow', ' sat']));
    expect(verdict).toMatchObject({
      kind: 'different',
      index: 1,
      places: [
        { token: { text: ' cat' }, start: 3, end: 7 },
        { token: { text: ' crow' }, start: 3, end: 8 },
      ],
      hashes: ['aa', 'bb'],
    });
  });

  it('places the end of an answer that is shorter', () => {
    const verdict = compareAnswers(answer('aa', ['The']), answer('bb', ['The', ' cat']));
    expect(verdict).toMatchObject({
      index: 1,
      places: [
        { start: 3, end: 3 },
        { start: 3, end: 7 },
      ],
    });
    expect(verdict.kind === 'different' && verdict.places[0].token).toBeUndefined();
  });

  it('places the difference where texts part when tokens by themselves spell otherwise', () => {
    // The first token drops its space in the text; the second is a part of a character that another completes.
    const verdict = compareAnswers(
      answer('aa', [' Tom', '\ufffd', ' x'], 'Tom\u00e9 x'),
      answer('bb', [' Tom', '\ufffd\ufffd', ' y'], 'Tom\u00e8 y'),
    );
    expect(verdict).toMatchObject({
      index: 1,
      places: [
        { start: 3, end: 4 },
        { start: 3, end: 4 },
      ],
    });
  });
});
