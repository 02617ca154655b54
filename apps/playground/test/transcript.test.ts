import { fc, test } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { type TextEvent, Transcript } from '../src/run/transcript.js';

const commit = (from: number, ...texts: string[]): TextEvent => ({
  type: 'commit',
  from,
  tokens: texts.map((_, i) => i),
  text: texts.join(''),
  hash: '',
});
const provisional = (from: number, ...texts: string[]): TextEvent => ({
  type: 'provisional',
  from,
  tokens: texts.map((_, i) => i),
  text: texts.join(''),
});
const rollback = (to: number): TextEvent => ({ type: 'rollback', to });

describe('the transcript of an answer', () => {
  it('turns candidates into final text as they are committed', () => {
    const transcript = new Transcript();
    expect(transcript.apply(provisional(0, 'a', 'b'))).toEqual({ committed: '', withdrawn: '', candidates: 'ab' });
    expect(transcript.apply(provisional(2, 'c'))).toEqual({ committed: '', withdrawn: '', candidates: 'abc' });
    expect(transcript.apply(commit(0, 'a'))).toEqual({ committed: 'a', withdrawn: '', candidates: 'bc' });
    expect(transcript.apply(commit(1, 'b', 'c', 'd'))).toEqual({ committed: 'bcd', withdrawn: '', candidates: '' });
    expect(transcript.tokenCount).toBe(4);
  });

  it('withdraws candidates from the token of a rollback on', () => {
    const transcript = new Transcript();
    for (const [i, text] of ['a', 'X', 'Y'].entries()) transcript.apply(provisional(i, text));
    expect(transcript.apply(rollback(1))).toEqual({ committed: '', withdrawn: 'XY', candidates: 'a' });
    expect(transcript.apply(commit(0, 'a', 'b'))).toEqual({ committed: 'ab', withdrawn: '', candidates: '' });
  });

  it('parts candidates that came together as soon as the commit tells their text', () => {
    const transcript = new Transcript();
    transcript.apply(provisional(0, 'a', 'b', 'X'));
    expect(transcript.apply(rollback(2))).toEqual({ committed: '', withdrawn: '', candidates: 'abX' });
    expect(transcript.apply(commit(0, 'a', 'b', 'c'))).toEqual({ committed: 'abc', withdrawn: 'X', candidates: '' });
  });

  it('refuses events that do not fit together', () => {
    const transcript = new Transcript();
    transcript.apply(provisional(0, 'a'));
    expect(() => transcript.apply(provisional(2, 'c'))).toThrow('candidates begin at 2, expected 1');
    expect(() => transcript.apply(commit(1, 'b'))).toThrow('a commit begins at 1, expected 0');
    transcript.apply(commit(0, 'a'));
    expect(() => transcript.apply(rollback(0))).toThrow('a rollback to 0, but 1 tokens are final');
  });

  const action = fc.oneof(
    fc.record({ kind: fc.constant('propose' as const), count: fc.integer({ min: 1, max: 4 }), wrong: fc.boolean() }),
    fc.record({ kind: fc.constant('verify' as const), count: fc.integer({ min: 1, max: 6 }) }),
  );

  test.prop([fc.array(action, { maxLength: 60 })])('loses no text and shows none twice, whatever comes', (actions) => {
    // Right tokens are lower case, wrong ones upper case; every third releases no text.
    const textOf = (index: number, wrong: boolean) =>
      index % 3 === 2 ? '' : String.fromCharCode((wrong ? 65 : 97) + (index % 26)).repeat(1 + (index % 2));
    const transcript = new Transcript();
    const shown = { committed: '', withdrawn: '', candidates: '' };
    const send = (event: TextEvent) => {
      const change = transcript.apply(event);
      shown.committed += change.committed;
      shown.withdrawn += change.withdrawn;
      shown.candidates = change.candidates;
    };
    const expected = { committed: '', withdrawn: '' };
    let final = 0;
    let candidates: { index: number; wrong: boolean }[] = [];
    const textsOf = (some: typeof candidates) => some.map(({ index, wrong }) => textOf(index, wrong));
    for (const step of actions) {
      if (step.kind === 'propose') {
        const from = final + candidates.length;
        const more = Array.from({ length: step.count }, (_, i) => ({ index: from + i, wrong: step.wrong }));
        candidates.push(...more);
        send(provisional(from, ...textsOf(more)));
      } else {
        const firstWrong = candidates.slice(0, step.count).findIndex(({ wrong }) => wrong);
        const kept = firstWrong < 0 ? Math.min(step.count, candidates.length) : firstWrong;
        const isWhole = firstWrong < 0 && kept < candidates.length;
        if (firstWrong >= 0) {
          expected.withdrawn += textsOf(candidates.slice(kept)).join('');
          send(rollback(final + kept));
        }
        // A window that fails, or that takes all candidates, yields one token more.
        const count = isWhole ? kept : kept + 1;
        const texts = Array.from({ length: count }, (_, i) => textOf(final + i, false));
        send(commit(final, ...texts));
        expected.committed += texts.join('');
        candidates = isWhole ? candidates.slice(kept) : [];
        final += count;
      }
      expect(shown).toEqual({ ...expected, candidates: textsOf(candidates).join('') });
      expect(transcript.tokenCount).toBe(final);
    }
  });
});
