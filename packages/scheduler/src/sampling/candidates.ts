import { exp } from '@stet/backend/numerics';
import { leastLogit } from './gumbel-max.js';

/**
 * Tokens that remain in a draw, in two columns: `ids` ascending, and their `values`, logits divided by the temperature.
 * Rank is by value, the lower id first among equals; every filter keeps the first by rank.
 */
export class Candidates {
  readonly ids: Int32Array;
  readonly values: Float64Array;
  count = 0;
  private readonly scratch: Float64Array;

  constructor(vocabSize: number) {
    this.ids = new Int32Array(vocabSize);
    this.values = new Float64Array(vocabSize);
    this.scratch = new Float64Array(vocabSize);
  }

  /** All tokens whose value is at least `floor`. `logits` (>= vocabSize) */
  collect(logits: Float64Array, vocabSize: number, temperature: number, floor: number): void {
    const { ids, values } = this;
    const least = leastLogit(floor, temperature);
    let count = 0;
    for (let id = 0; id < vocabSize; id++) {
      if (logits[id]! < least) continue;
      const value = logits[id]! / temperature;
      if (!(value >= floor)) continue;
      ids[count] = id;
      values[count++] = value;
    }
    this.count = count;
  }

  /** The k best of the tokens whose value is at least `floor`. */
  collectBest(logits: Float64Array, vocabSize: number, temperature: number, floor: number, k: number): void {
    const { ids, values } = this;
    let least = leastLogit(floor, temperature);
    let count = 0;
    let limit = limitAfter(0, k);
    for (let id = 0; id < vocabSize; id++) {
      if (logits[id]! < least) continue;
      const value = logits[id]! / temperature;
      if (!(value >= floor)) continue;
      ids[count] = id;
      values[count++] = value;
      if (count < limit) continue;
      this.count = count;
      this.keepBest(k);
      count = this.count;
      limit = limitAfter(count, k);
      least = leastLogit(this.worst(), temperature);
    }
    this.count = count;
    this.keepBest(k);
  }

  /** Keeps the k best. */
  keepBest(k: number): void {
    if (k >= this.count) return;
    const { ids, values } = this;
    const sorted = this.sorted();
    const last = sorted[sorted.length - k]!;
    let equals = k;
    for (let i = sorted.length - 1; sorted[i]! > last; i--) equals--;
    let count = 0;
    for (let i = 0; i < sorted.length; i++) {
      const value = values[i]!;
      if (value < last || (value === last && equals-- <= 0)) continue;
      ids[count] = ids[i]!;
      values[count++] = value;
    }
    this.count = count;
  }

  /** The sum of exp(value - largest), in ascending order of id. */
  sumOfExp(largest: number): number {
    let sum = 0;
    for (let i = 0; i < this.count; i++) sum += exp(this.values[i]! - largest);
    return sum;
  }

  /**
   * How many of the best it takes until the sum of exp(value - largest), by rank, reaches a share that is known to be
   * between `low` and `high`; undefined where that depends on what it is, or if all of them do not reach it.
   */
  countReaching(low: number, high: number, largest: number): number | undefined {
    const sorted = this.sorted();
    let sum = 0;
    for (let kept = 1; kept <= sorted.length; kept++) {
      sum += exp(sorted[sorted.length - kept]! - largest);
      if (sum >= low) return sum >= high ? kept : undefined;
    }
    return undefined;
  }

  private worst(): number {
    let worst = Number.POSITIVE_INFINITY;
    for (let i = 0; i < this.count; i++) if (this.values[i]! < worst) worst = this.values[i]!;
    return worst;
  }

  /** The values, ascending; valid until the next call. */
  private sorted(): Float64Array {
    this.scratch.set(this.values.subarray(0, this.count));
    return this.scratch.subarray(0, this.count).sort();
  }
}

/** When to drop all but the k best of `count` candidates: seldom enough for sorting them to cost little. */
function limitAfter(count: number, k: number): number {
  return Math.max(2 * count, 4 * k, 256);
}
