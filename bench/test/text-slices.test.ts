import { describe, expect, it } from 'vitest';
import { textSlice } from '../src/text-slices.js';
import type { TextName } from '../src/texts.js';

const counting = (from: number) => Array.from({ length: 40 }, (_, i) => from + i);
const texts = new Map<TextName, readonly number[]>([
  ['prose', counting(0)],
  ['tale', counting(1000)],
]);

describe('slices of texts', () => {
  it('are so many adjacent tokens, from the texts in turn', () => {
    for (let index = 0; index < 50; index++) {
      const slice = textSlice({ texts }, 8, 7, index);
      const start = slice[0]!;
      expect(slice).toEqual(Array.from({ length: 8 }, (_, i) => start + i));
      expect(start).toBeGreaterThanOrEqual(index % 2 === 0 ? 0 : 1000);
      expect(start).toBeLessThanOrEqual(index % 2 === 0 ? 32 : 1032);
    }
  });

  it('are the same for the same seed and others for another', () => {
    const all = (seed: number) => Array.from({ length: 20 }, (_, index) => textSlice({ texts }, 8, seed, index));
    expect(all(1)).toEqual(all(1));
    expect(all(1)).not.toEqual(all(2));
    expect(new Set(all(1).map(String)).size).toBeGreaterThan(10);
  });

  it('may be as long as a text and no longer', () => {
    expect(textSlice({ texts }, 40, 1, 0)).toEqual(counting(0));
    expect(() => textSlice({ texts }, 41, 1, 0)).toThrow('a text of 40 tokens has no 41 of them');
  });
});
