import { exp } from '@stet/backend/numerics';
import type { Candidates } from './candidates.js';
import { REACH } from './reach.js';

/** Entries of the table of e^-d for each unit of d. */
const STEPS = 64;
const TABLE = Float64Array.from({ length: REACH * STEPS + 1 }, (_, i) => exp(-i / STEPS));
/** Bins of each unit of d. */
const BINS = 4;
const STEPS_OF_BIN = STEPS / BINS;

/**
 * Top-p over a whole vocabulary. Only the sum of all probabilities needs every token, and that sum only matters as far
 * as it says where to stop: an estimate with a bound of its error says it nearly always, and if not the sum is taken as
 * the definition has it.
 */
export class Nucleus {
  /** Probability by distance from the largest value, in bins. */
  private readonly bins = new Float64Array(REACH * BINS);

  /** Collects the fewest best tokens whose share of all the probability reaches p; at least one. */
  collect(
    candidates: Candidates,
    logits: Float64Array,
    vocabSize: number,
    temperature: number,
    largestLogit: number,
    p: number,
  ): void {
    const largest = largestLogit / temperature;
    const total = this.estimate(logits, vocabSize, largestLogit, 1 / temperature);
    const error = ESTIMATE_ERROR + (Math.abs(largest) + REACH) * 2 ** -49 + vocabSize * 2 ** -52;
    const high = p * total * (1 + error);
    candidates.collect(logits, vocabSize, temperature, largest - this.depthOf(high));
    const kept = candidates.countReaching(p * total * (1 - error), high, largest);
    if (kept !== undefined) {
      candidates.keepBest(kept);
      return;
    }
    candidates.collect(logits, vocabSize, temperature, largest - REACH);
    keepTopP(candidates, largest, p);
  }

  /** About the sum of exp(value - largest), and that of each bin. */
  private estimate(logits: Float64Array, vocabSize: number, largestLogit: number, inverse: number): number {
    const { bins } = this;
    bins.fill(0);
    for (let id = 0; id < vocabSize; id++) {
      const distance = (largestLogit - logits[id]!) * inverse;
      if (!(distance < REACH)) continue;
      const step = (distance * STEPS) | 0;
      const r = distance - step / STEPS;
      bins[(step / STEPS_OF_BIN) | 0]! += TABLE[step]! * (1 - r * (1 - r * (1 / 2 - r * (1 / 6))));
    }
    let total = 0;
    for (let i = 0; i < bins.length; i++) total += bins[i]!;
    return total;
  }

  /** How far below the largest value the best tokens with this much of the estimate reach. */
  private depthOf(mass: number): number {
    let sum = 0;
    for (let i = 0; i < this.bins.length; i++) {
      sum += this.bins[i]!;
      if (sum >= mass) return (i + 1) / BINS + 2 ** -10;
    }
    return REACH;
  }
}

/** The relative error of the cubic between entries, 2^-24 / 24, and some more. */
const ESTIMATE_ERROR = 1e-8;

/** Keeps the fewest best whose share of all the probability reaches p, at least one. */
export function keepTopP(candidates: Candidates, largest: number, p: number): void {
  const wanted = p * candidates.sumOfExp(largest);
  // Rounding: all of them, summed by rank, may not reach a share that is nearly 1. Then all remain.
  candidates.keepBest(candidates.countReaching(wanted, wanted, largest) ?? candidates.count);
}
