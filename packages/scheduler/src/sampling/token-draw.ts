import type { AdjustedLogits, Draw } from '@stet/backend';
import { ln } from '@stet/backend/numerics';
import { Candidates } from './candidates.js';
import { GumbelMax } from './gumbel-max.js';
import { GUMBEL_MAX, GumbelNoise } from './noise.js';
import { keepTopP, Nucleus } from './nucleus.js';
import { REACH } from './reach.js';

/** Draws one token. Its answers depend on its arguments alone; the instance only keeps scratch space. */
export class TokenDraw {
  private readonly vocabSize: number;
  private readonly gumbelMax = new GumbelMax();
  private readonly noise = new GumbelNoise();
  private readonly nucleus = new Nucleus();
  private readonly candidates: Candidates;
  /** Adjusted logits, padded with -Infinity to a multiple of 4. */
  private readonly logits: Float64Array;

  constructor(vocabSize: number) {
    this.vocabSize = vocabSize;
    this.candidates = new Candidates(vocabSize);
    this.logits = new Float64Array(Math.ceil(vocabSize / 4) * 4).fill(Number.NEGATIVE_INFINITY);
  }

  /** The token drawn. Temperature 0 takes the largest adjusted logit, the lowest id among equals. */
  draw({ logits, adjusted, params, seed, outputIndex }: Draw): number {
    const { temperature, topK, topP, minP } = params;
    const largestLogit = this.load(logits, adjusted);
    const best = this.logits.indexOf(largestLogit);
    if (temperature === 0) return best;
    const largest = largestLogit / temperature;
    const reach = largest - REACH;
    const floor = minP > 0 ? Math.max(reach, largest + ln(minP)) : reach;
    const { candidates, vocabSize } = this;
    if (topK > 0 && topK < vocabSize) {
      candidates.collectBest(this.logits, vocabSize, temperature, reach, topK);
      if (topP < 1) keepTopP(candidates, largest, topP);
    } else if (topP < 1) {
      this.nucleus.collect(candidates, this.logits, vocabSize, temperature, largestLogit, topP);
    } else {
      return this.gumbelMax.draw({
        logits: this.logits,
        count: vocabSize,
        best,
        temperature,
        floor,
        seed,
        outputIndex,
      });
    }
    return this.choose(largest, floor, seed, outputIndex);
  }

  /** Copies the logits, puts the adjusted ones in their place and returns the largest. */
  private load(logits: Float32Array, adjusted: AdjustedLogits | undefined): number {
    this.logits.set(logits);
    if (adjusted) {
      const { ids, values } = adjusted;
      for (let i = 0; i < ids.length; i++) this.logits[ids[i]!] = values[i]!;
    }
    return largestOf(this.logits);
  }

  /** Gumbel-max over the candidates: the largest of value + noise, the lowest id among equals. Begins with the likeliest. */
  private choose(largest: number, floor: number, seed: number, outputIndex: number): number {
    const { ids, values, count } = this.candidates;
    const { noise } = this;
    noise.aim(seed, outputIndex);
    let winner = ids[values.indexOf(largest)]!;
    let winning = largest + noise.at(winner);
    for (let i = 0; i < count; i++) {
      const value = values[i]!;
      const id = ids[i]!;
      if (value < floor || value + GUMBEL_MAX < winning || value + noise.bound(id) < winning) continue;
      const score = value + noise.at(id);
      if (score < winning || (score === winning && id >= winner)) continue;
      winning = score;
      winner = id;
    }
    return winner;
  }
}

/** Of a multiple of 4, in four chains of comparisons, so that none waits for another. */
function largestOf(values: Float64Array): number {
  let largest0 = Number.NEGATIVE_INFINITY;
  let largest1 = largest0;
  let largest2 = largest0;
  let largest3 = largest0;
  for (let i = 0; i < values.length; i += 4) {
    if (values[i]! > largest0) largest0 = values[i]!;
    if (values[i + 1]! > largest1) largest1 = values[i + 1]!;
    if (values[i + 2]! > largest2) largest2 = values[i + 2]!;
    if (values[i + 3]! > largest3) largest3 = values[i + 3]!;
  }
  return Math.max(largest0, largest1, largest2, largest3);
}
