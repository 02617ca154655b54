import { createStreamDecoder } from '@stet/model';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopAutomaton } from '../src/text/stop-automaton.js';
import { TextMachine } from '../src/text/text-machine.js';
import { byteTokenizer, EOS, utf8 } from './helpers.js';

/** What the machine must release: text before the stop string that is complete first. */
function cutAtStop(text: string, stops: readonly string[]): { text: string; stopped: boolean } {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((stop) => text.slice(0, end).endsWith(stop)).map((stop) => stop.length);
    if (found.length > 0) return { text: text.slice(0, end - Math.max(...found)), stopped: true };
  }
  return { text, stopped: false };
}

function machineOf(stops: readonly string[], pieces: readonly string[] = []) {
  return new TextMachine(createStreamDecoder(byteTokenizer(pieces)), {
    promptTokens: [],
    stops,
    silentTokens: new Set([EOS]),
  });
}

/** Feeds tokens and returns what came out, piece by piece, and at the end. */
function run(machine: ReturnType<typeof machineOf>, tokens: readonly number[]) {
  let state = machine.initial;
  const released: string[] = [];
  for (const token of tokens) {
    state = machine.next(state, token);
    released.push(state.released);
    if (machine.matched(state)) break;
  }
  return { released, text: released.join('') + machine.finish(state), stopped: machine.matched(state) };
}

describe('the stop automaton', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 40 });
  const stopStrings = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 5 }), {
    minLength: 1,
    maxLength: 8,
  });

  it('finds the string that is complete first, wherever the text is cut into pieces', () => {
    fc.assert(
      fc.property(letters, stopStrings, fc.array(fc.nat(6), { maxLength: 20 }), (text, stops, lengths) => {
        const automaton = new StopAutomaton(stops);
        let matched = automaton.initial;
        let fed = 0;
        let cut: number | undefined;
        for (const length of [...lengths, text.length]) {
          const outcome = automaton.feed(matched, text.slice(fed, fed + length));
          if (outcome.kind === 'found') {
            cut = fed + outcome.end - outcome.length;
            break;
          }
          matched = outcome.matched;
          fed = Math.min(text.length, fed + length);
        }
        const expected = cutAtStop(text, stops);
        expect(cut).toBe(expected.stopped ? expected.text.length : undefined);
      }),
      { numRuns: 500 },
    );
  });
});

describe('text', () => {
  const stops = ['</s>', 'é€', 'END', 'ND.', 'abab'];

  it('23. ends before a stop string that is split at every byte', () => {
    for (const stop of stops) {
      const text = `Grüße 🙂 ${stop} more`;
      const { released, text: got, stopped } = run(machineOf([stop]), utf8(text));
      expect(stopped).toBe(true);
      expect(got).toBe('Grüße 🙂 ');
      expect(released.length).toBe(utf8(`Grüße 🙂 ${stop}`).length);
    }
  });

  it('23. ends before a stop string that is split between two tokens at every place', () => {
    for (const stop of ['END', 'é€🙂']) {
      const whole = `x${stop}y`;
      for (let at = 1; at < whole.length; at++) {
        if (/[\uDC00-\uDFFF]/.test(whole[at]!)) continue;
        const machine = machineOf([stop], [whole.slice(0, at), whole.slice(at)]);
        expect(run(machine, [257, 258])).toMatchObject({ text: 'x', stopped: true });
      }
    }
  });

  it('is held back while it may begin a stop string and released when it does not', () => {
    const { released, text } = run(machineOf(['abcd']), utf8('xabcabce'));
    expect(released).toEqual(['x', '', '', '', 'abc', '', '', 'abce']);
    expect(text).toBe('xabcabce');
  });

  it('that is held back at the end is released', () => {
    expect(run(machineOf(['abcd']), utf8('xabc'))).toMatchObject({ text: 'xabc', stopped: false });
  });

  it('does not hold characters whose bytes are missing longer than needed, and ends with U+FFFD for them', () => {
    expect(run(machineOf([]), utf8('é🙂'))).toMatchObject({ released: ['', 'é', '', '', '', '🙂'], text: 'é🙂' });
    expect(run(machineOf([]), utf8('é🙂').slice(0, -1)).text).toBe('é\uFFFD');
  });

  it('goes back to any earlier state', () => {
    const machine = machineOf(['stop']);
    const states = [machine.initial];
    for (const byte of utf8('a sto')) states.push(machine.next(states.at(-1)!, byte));
    expect(machine.next(states.at(-1)!, utf8('p')[0]!).stopped).toBe(true);
    const other = machine.next(machine.next(states[2]!, utf8('s')[0]!), utf8('x')[0]!);
    expect(other).toMatchObject({ released: 'sx', stopped: false });
  });

  it('equals the whole text cut at its first stop string, for any text, tokens and stop strings', () => {
    const alphabet = fc.constantFrom('a', 'b', 'é', '€', '🙂', ' ');
    const piece = fc.string({ unit: alphabet, minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(
        fc.array(piece, { minLength: 1, maxLength: 12 }),
        fc.array(piece, { maxLength: 4 }),
        fc.infiniteStream(fc.boolean()),
        (pieces, stopStrings, whole) => {
          const tokens = pieces.flatMap((text, index) => (whole.next().value ? [257 + index] : utf8(text)));
          const got = run(machineOf(stopStrings, pieces), tokens);
          expect({ text: got.text, stopped: got.stopped }).toEqual(cutAtStop(pieces.join(''), stopStrings));
        },
      ),
      { numRuns: 500 },
    );
  });

  it('spells nothing for the token that ends it', () => {
    expect(run(machineOf(['x']), [...utf8('ab'), EOS])).toMatchObject({ text: 'ab', stopped: false });
  });
});
