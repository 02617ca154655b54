import { describe, expect, it } from 'vitest';
import { casesOf } from '../src/formats.js';

describe('the formats of a model', () => {
  it('are those of the numerics, its own among them', () => {
    const { all, own } = casesOf(['q8']);
    expect(all.map(({ title }) => title)).toEqual(['bf16', 'q8', 'q4']);
    expect(own).toEqual({ title: 'q8', format: 'q8' });
  });

  it('end with the mix that suits its files, where these are mixed', () => {
    const { all, own } = casesOf(['q8', 'q4']);
    expect(all).toHaveLength(4);
    expect(all.at(-1)).toBe(own);
    expect(own).toEqual({ title: 'q4+q8', format: 'auto' });
  });
});
