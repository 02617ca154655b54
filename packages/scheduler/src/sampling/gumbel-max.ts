import { GUMBEL_BOUNDS, GUMBEL_MAX, gumbel } from './noise.js';
import { PhiloxGroups } from './philox-groups.js';

/** Tokens whose words are made at a time. */
const CHUNK = 256;

/** What a draw from all tokens depends on. */
export interface GumbelDraw {
  /** (count, padded with -Infinity to a multiple of 4), after penalties and biases. */
  readonly logits: Float64Array;
  readonly count: number;
  /** The lowest id of the largest logit. */
  readonly best: number;
  readonly temperature: number;
  /** Tokens whose value, logit / temperature, is below it are out. */
  readonly floor: number;
  readonly seed: number;
  readonly outputIndex: number;
}

/**
 * Finds the token of the largest value + noise, the lowest id among equals. A token is left out unseen if its value
 * could not win with the largest noise, or with the largest that the leading bits of its word allow: logarithms are
 * taken of a few tokens only.
 */
export class GumbelMax {
  private readonly groups = new PhiloxGroups();
  private readonly words = new Int32Array(CHUNK);
  private winner = -1;
  private winning = Number.NEGATIVE_INFINITY;
  /** A logit below it is out, whatever its noise. */
  private least = Number.NEGATIVE_INFINITY;

  draw(draw: GumbelDraw): number {
    const { logits, best, temperature, floor, seed, outputIndex } = draw;
    this.groups.aim(seed, outputIndex);
    this.winner = -1;
    this.winning = Number.NEGATIVE_INFINITY;
    this.least = leastLogit(floor, temperature);
    // What logit · (1 / temperature) and logit / temperature may differ by, and some more.
    const slack = (Math.abs(logits[best]! / temperature) + 64) * 2 ** -49;
    // The likeliest token first, so that little can win after it.
    this.scan(draw, best & ~3, (best & ~3) + 4, slack);
    for (let start = 0; start < logits.length; start += CHUNK)
      this.scan(draw, start, Math.min(start + CHUNK, logits.length), slack);
    return this.winner;
  }

  /** Tokens start .. end - 1, both multiples of 4. */
  private scan({ logits, temperature, floor }: GumbelDraw, start: number, end: number, slack: number): void {
    const { words } = this;
    this.groups.fill(words, logits, start, end, this.least);
    const inverse = 1 / temperature;
    let wanted = this.winning - slack;
    for (let id = start; id < end; id++) {
      const logit = logits[id]!;
      const word = words[id - start]!;
      if (logit < this.least || logit * inverse + GUMBEL_BOUNDS[Math.clz32(~word)]! < wanted) continue;
      const value = logit / temperature;
      if (!(value >= floor)) continue;
      const score = value + gumbel(word >>> 0);
      if (score < this.winning || (score === this.winning && id >= this.winner)) continue;
      this.winner = id;
      this.winning = score;
      this.least = leastLogit(Math.max(floor, score - GUMBEL_MAX - slack), temperature);
      wanted = score - slack;
    }
  }
}

/** Every logit below it, divided by the temperature, is below `value`. */
export function leastLogit(value: number, temperature: number): number {
  const logit = value * temperature;
  return logit === Number.NEGATIVE_INFINITY ? logit : logit - Math.abs(logit) * 2 ** -50;
}
