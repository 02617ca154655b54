import { fc } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { ByteBudget } from '../src/streams/byte-budget.js';
import { CommitRing } from '../src/streams/commit-ring.js';

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('push' as const), tokens: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('trim' as const), percent: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'others' as const }) },
);

describe('the commits that are kept of a stream', () => {
  it('are the latest without a gap, at least all that was not sent, within half the limit once it was', () => {
    const limitBytes = 400;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.nat(50), (steps, start) => {
        const budget = new ByteBudget(1000);
        const ring = new CommitRing(start, limitBytes, budget);
        let others = 0;
        let kept: { from: number; to: number; body: string }[] = [];
        for (const one of steps) {
          if (one.kind === 'push') {
            const commit = { from: ring.end, to: ring.end + one.tokens, body: 'é'.repeat(10 * one.tokens) };
            ring.push(commit);
            kept.push(commit);
          } else if (one.kind === 'others') {
            budget.add(400);
            others += 400;
          } else {
            const sent = start + Math.floor((one.percent / 100) * (ring.end - start));
            ring.trim(sent);
            kept = kept.filter(({ from }) => from >= ring.start);
            const bytes = kept.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
            const mayForget = kept[0] !== undefined && kept[0].to <= sent;
            if (mayForget) expect(bytes <= limitBytes / 2 && !budget.isSpent).toBe(true);
          }
          const bytes = kept.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
          expect(budget.usedBytes).toBe(others + bytes);
          expect(ring.hasRoom).toBe(bytes < limitBytes && others + bytes < 1000);
          expect(ring.start).toBe(kept[0]?.from ?? ring.end);
          const boundaries = new Set([...kept.map(({ from }) => from), ring.end]);
          for (let index = Math.max(0, ring.start - 3); index <= ring.end + 1; index++) {
            expect(ring.isBoundary(index)).toBe(boundaries.has(index));
            expect(ring.at(index)?.body).toBe(kept.find(({ from }) => from === index)?.body);
          }
        }
        ring.clear();
        expect(budget.usedBytes).toBe(others);
        expect(ring.start).toBe(ring.end);
      }),
      { numRuns: 200 },
    );
  });

  it('never lack what was not sent', () => {
    const ring = new CommitRing(0, 10, new ByteBudget(10));
    for (let from = 0; from < 5; from++) ring.push({ from, to: from + 1, body: 'x'.repeat(20) });
    ring.trim(2);
    expect([ring.start, ring.end]).toEqual([2, 5]);
  });
});
