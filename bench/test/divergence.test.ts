import { describe, expect, it } from 'vitest';
import { compareLogits, logSoftmax, overTexts } from '../src/divergence.js';

const LN2 = Math.log(2);

describe('logSoftmax', () => {
  it('gives logarithms of probabilities that add up to 1, whatever is added to all logits', () => {
    for (const offset of [0, -3, 1000]) {
      const logits = [9, offset, offset + LN2, offset + LN2, 9];
      const probabilities = Array.from(logSoftmax(logits, 1, 3), Math.exp);
      for (const [id, p] of [1 / 5, 2 / 5, 2 / 5].entries()) expect(probabilities[id]).toBeCloseTo(p, 12);
    }
  });
});

describe('compareLogits', () => {
  // Probabilities 1/2, 1/4, 1/4 against 1/4, 1/4, 1/2.
  const truth = [LN2, 0, 0];
  const other = [0, 0, LN2];

  it('is 0 between equal logits, and between those that differ by a constant', () => {
    const twice = [...truth, ...truth];
    const { meanKl, top1 } = compareLogits(twice, twice, [0, 0], 3);
    expect(meanKl).toBe(0);
    expect(top1).toBe(1);
    const shifted = twice.map((logit) => logit + 5);
    expect(compareLogits(twice, shifted, [0, 0], 3).meanKl).toBeCloseTo(0, 12);
  });

  it('gives the divergence of the other from the truth in nats, not the reverse', () => {
    // Σ p ln(p / q) = 1/2 ln 2 + 0 + 1/4 ln 1/2
    const { meanKl } = compareLogits([...truth, ...truth], [...other, ...other], [0, 0], 3);
    expect(meanKl).toBeCloseTo(0.25 * LN2, 12);
    const peaked = [Math.log(8), 0, 0];
    const flat = [0, 0, 0];
    const forth = compareLogits([...peaked, ...peaked], [...flat, ...flat], [0, 0], 3).meanKl;
    const back = compareLogits([...flat, ...flat], [...peaked, ...peaked], [0, 0], 3).meanKl;
    expect(forth).toBeCloseTo(0.8 * Math.log(2.4) + 0.2 * Math.log(0.3), 12);
    expect(back).toBeCloseTo(Math.log(1 / 2.4) / 3 + (2 / 3) * Math.log(1 / 0.3), 12);
  });

  it('takes the perplexity under the other, of each next token, and leaves the last row out', () => {
    const nonsense = [100, -100, 0];
    // Row 0 predicts token 2 (1/2 under the other), row 1 token 1 (1/4).
    const logits = [...other, ...other, ...nonsense];
    const { perplexity, meanKl, top1 } = compareLogits([...truth, ...truth, ...truth], logits, [0, 2, 1], 3);
    expect(perplexity).toBeCloseTo(Math.sqrt(2 * 4), 12);
    expect(meanKl).toBeCloseTo(0.25 * LN2, 12);
    expect(top1).toBe(0);
  });
});

describe('overTexts', () => {
  it('counts every predicted token alike, whichever text it is of', () => {
    const short = { divergence: { meanKl: 4, perplexity: 8, top1: 0 }, predicted: 1 };
    const long = { divergence: { meanKl: 0, perplexity: 1, top1: 1 }, predicted: 3 };
    const { meanKl, perplexity, top1 } = overTexts([short, long]);
    expect(meanKl).toBe(1);
    expect(perplexity).toBeCloseTo(8 ** 0.25, 12);
    expect(top1).toBe(0.75);
  });
});
