import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { percentile } from '../../src/stats.js';
import { arxivLengths, drawLengths, gridLengths, MIN_TOKENS, shareGptLengths } from '../../src/workloads/lengths.js';

const distribution = fc.constantFrom(shareGptLengths, arxivLengths);
const options = fc.record({
  count: fc.integer({ min: 0, max: 200 }),
  contextLength: fc.integer({ min: 64, max: 40_000 }),
  seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
});

describe('drawn lengths', () => {
  it('fit the context, whatever it is', () => {
    fc.assert(
      fc.property(distribution, options, (one, draw) => {
        const all = drawLengths(one, draw);
        expect(all).toHaveLength(draw.count);
        for (const { promptTokens, outputTokens } of all) {
          expect(Math.min(promptTokens, outputTokens)).toBeGreaterThanOrEqual(MIN_TOKENS);
          expect(promptTokens + outputTokens).toBeLessThanOrEqual(draw.contextLength);
        }
      }),
    );
  });

  it('are the same for the same seed and others for another', () => {
    fc.assert(
      fc.property(distribution, options, (one, draw) => {
        expect(drawLengths(one, draw)).toEqual(drawLengths(one, draw));
      }),
    );
    const draw = { count: 50, contextLength: 1024, seed: 1 };
    expect(drawLengths(shareGptLengths, draw)).not.toEqual(drawLengths(shareGptLengths, { ...draw, seed: 2 }));
  });

  it('have the published means of ShareGPT where the context has room', () => {
    const all = drawLengths(shareGptLengths, { count: 40_000, contextLength: 2048, seed: 7 });
    expect(mean(all.map(({ promptTokens }) => promptTokens)) / 217).toBeCloseTo(1, 1);
    expect(mean(all.map(({ outputTokens }) => outputTokens)) / 198).toBeCloseTo(1, 1);
  });

  it('have the published percentiles of arXiv where the context has room', () => {
    const all = drawLengths(arxivLengths, { count: 40_000, contextLength: 16_384, seed: 7 });
    const outputs = all.map(({ outputTokens }) => outputTokens);
    expect(percentile(outputs, 0.5) / 208).toBeCloseTo(1, 1);
    expect(percentile(outputs, 0.9) / 371).toBeCloseTo(1, 1);
    expect(
      percentile(
        all.map(({ promptTokens }) => promptTokens),
        0.5,
      ) / 7059,
    ).toBeCloseTo(1, 1);
  });

  it('are refused for a context without room for any', () => {
    const draw = { count: 1, contextLength: 63, seed: 1 };
    expect(() => drawLengths(shareGptLengths, draw)).toThrow(
      expect.objectContaining({ code: 'STET_ERR_UNSUPPORTED', message: expect.stringContaining('63 tokens') }),
    );
  });
});

describe('the grid', () => {
  it("is the paper's 1K/256 from a context of 4096 on, and a part of a shorter one", () => {
    expect(gridLengths(131_072)).toEqual({ promptTokens: 1024, outputTokens: 256 });
    expect(gridLengths(4096)).toEqual({ promptTokens: 1024, outputTokens: 256 });
    expect(gridLengths(1024)).toEqual({ promptTokens: 256, outputTokens: 128 });
  });
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
