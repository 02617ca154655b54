import { describe, expect, it } from 'vitest';
import { manualClock, seededRandom } from '../src/index.js';

describe('seededRandom', () => {
  it('repeats from its seed and differs between seeds', () => {
    const draw = (seed: number) => {
      const random = seededRandom(seed);
      return Array.from({ length: 8 }, () => random.next());
    };
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });

  it('covers a range evenly and stays inside it', () => {
    const random = seededRandom(7);
    const counts = new Array<number>(10).fill(0);
    for (let i = 0; i < 10_000; i++) counts[random.between(3, 12) - 3]!++;
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150);
  });

  it('shuffles a copy and loses nothing', () => {
    const items = [1, 2, 3, 4, 5, 6, 7, 8];
    const shuffled = seededRandom(2).shuffle(items);
    expect(shuffled).not.toEqual(items);
    expect(shuffled.sort((a, b) => a - b)).toEqual(items);
  });

  it('forks a generator that does not follow its parent', () => {
    const parent = seededRandom(1);
    const [a, b] = [parent.fork(1), parent.fork(1)];
    expect(a.next()).not.toBe(b.next());
  });
});

describe('manualClock', () => {
  it('runs what is due in order of time, also what was set meanwhile', () => {
    const clock = manualClock(100);
    const seen: string[] = [];
    clock.after(20, () => seen.push(`b ${clock.now()}`));
    clock.after(10, () => {
      seen.push(`a ${clock.now()}`);
      clock.after(5, () => seen.push(`c ${clock.now()}`));
    });
    const cancel = clock.after(12, () => seen.push('cancelled'));
    cancel();
    clock.advance(19);
    expect(seen).toEqual(['a 110', 'c 115']);
    clock.advance(1);
    expect(seen).toEqual(['a 110', 'c 115', 'b 120']);
    expect(clock.now()).toBe(120);
  });
});
