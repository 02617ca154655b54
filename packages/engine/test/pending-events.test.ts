import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GenerateEvent } from '../src/index.js';
import { PendingEvents } from '../src/request/pending-events.js';

/** A reader's screen: what it knows after the events it read. */
class Screen {
  readonly committed: number[] = [];
  committedText = '';
  hash = '0';
  candidates = new Map<number, number>();

  read(event: GenerateEvent): void {
    if (event.type === 'commit') {
      expect(event.from).toBe(this.committed.length);
      this.committed.push(...event.tokens);
      this.committedText += event.text;
      this.hash = event.hash;
      for (let i = event.from; i < this.committed.length; i++) this.candidates.delete(i);
    } else if (event.type === 'provisional') {
      event.tokens.forEach((token, i) => {
        expect(this.candidates.has(event.from + i)).toBe(false);
        this.candidates.set(event.from + i, token);
      });
      expect(event.text).toBe(event.tokens.map((token) => `<${token}>`).join(''));
    } else if (event.type === 'rollback') {
      for (const index of [...this.candidates.keys()]) if (index >= event.to) this.candidates.delete(index);
    }
  }
}

/** What a scheduler may do: candidates come one by one; a window commits some, or a correction and a rollback. */
type Action =
  | { kind: 'candidate'; token: number }
  | { kind: 'window'; matched: number; outcome: 'bonus' | 'mismatch' | 'part'; token: number }
  | { kind: 'drop' }
  | { kind: 'read'; count: number; maxTokens: number };

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('candidate' as const), token: fc.nat(9) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('window' as const),
      matched: fc.nat(5),
      outcome: fc.constantFrom('bonus' as const, 'mismatch' as const, 'part' as const),
      token: fc.nat(9),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'drop' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('read' as const),
      count: fc.nat(4),
      maxTokens: fc.constantFrom(1, 2, 3, 1000),
    }),
  },
);

describe('pending events', () => {
  it('show a reader the same final screen however seldom and little it reads, in memory that does not grow with events', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
        const pending = new PendingEvents();
        const screen = new Screen();
        const committed: number[] = [];
        let candidates: number[] = [];
        const commit = (tokens: number[]) => {
          const from = committed.length;
          const texts = tokens.map((token) => `<${token}>`);
          pending.commit({ from, tokens, texts, hashes: tokens.map((_, index) => `${from + index + 1}`) });
          committed.push(...tokens);
        };
        const read = (count: number, maxTokens?: number) => {
          for (let i = 0; i < count; i++) {
            const event = pending.take(maxTokens);
            if (!event) return i;
            if (event.type === 'commit') expect(event.tokens.length).toBeLessThanOrEqual(maxTokens ?? 1000);
            screen.read(event);
            expect(screen.hash).toBe(`${screen.committed.length}`);
          }
          return count;
        };
        for (const one of actions) {
          if (one.kind === 'candidate') {
            pending.provisional(committed.length + candidates.length, [{ token: one.token, text: `<${one.token}>` }]);
            candidates.push(one.token);
          } else if (one.kind === 'drop') {
            pending.rollback(committed.length);
            candidates = [];
          } else if (one.kind === 'read') read(one.count, one.maxTokens);
          else {
            const matched = Math.min(one.matched, candidates.length);
            if (one.outcome === 'part' && matched > 0) commit(candidates.splice(0, matched));
            else if (one.outcome === 'mismatch' && matched < candidates.length) {
              pending.rollback(committed.length + matched);
              commit([...candidates.slice(0, matched), one.token + 10]);
              candidates = [];
            } else {
              commit([...candidates, one.token]);
              candidates = [];
            }
          }
        }
        // At most one event of each kind waits.
        expect(read(100)).toBeLessThanOrEqual(3);
        expect(screen.committed).toEqual(committed);
        expect(screen.committedText).toBe(committed.map((token) => `<${token}>`).join(''));
        expect([...screen.candidates].sort(([a], [b]) => a - b)).toEqual(
          candidates.map((token, i) => [committed.length + i, token]),
        );
      }),
      { numRuns: 1000 },
    );
  });

  it('tell of no rollback whose candidates the reader has never seen', () => {
    const pending = new PendingEvents();
    pending.provisional(0, [{ token: 1, text: 'a' }]);
    pending.rollback(0);
    expect(pending.take()).toBeUndefined();
  });
});
