import { assert } from '@stet/backend';
import { ln } from '@stet/backend/numerics';
import type { SamplingParams, TokenHistory } from '../request.js';
import { keepTopK, keepTopP } from './filters.js';
import { GUMBEL_MAX, GumbelNoise } from './noise.js';

/** Part of the fingerprint: raised when any sampled token could change. */
export const SAMPLER_VERSION = 'sampler-1';

/** Scaled logits further below the largest than this have no chance and are left out before the filters. */
const REACH = 64;

/** Draws tokens. Its answers depend on its arguments alone; the instance only keeps scratch space. */
export class Sampler {
  private readonly noise = new GumbelNoise();
  /** Candidates of the draw: ids ascending, and their logits, adjusted and divided by the temperature. */
  private readonly ids: Int32Array;
  private readonly scaled: Float64Array;

  constructor(vocabSize: number) {
    this.ids = new Int32Array(vocabSize);
    this.scaled = new Float64Array(vocabSize);
  }

  /**
   * The token of output index `outputIndex`. `logits` (vocabSize); `history`: the row's own tokens so far, needed
   * when a penalty is set. Temperature 0 takes the largest adjusted logit, the lowest id among equals.
   */
  sample(
    logits: Float32Array,
    params: SamplingParams,
    seed: number,
    outputIndex: number,
    history: TokenHistory | undefined,
  ): number {
    const scaled = this.scaled;
    for (let id = 0; id < logits.length; id++) scaled[id] = logits[id]!;
    this.adjust(params, history);
    const best = this.argmax(logits.length);
    if (params.temperature === 0) return best;
    return this.draw(logits.length, best, params, seed, outputIndex);
  }

  /** Repetition penalty, then frequency and presence penalties, then bias. */
  private adjust(params: SamplingParams, history: TokenHistory | undefined): void {
    const { frequencyPenalty, presencePenalty, repetitionPenalty, logitBias } = params;
    const { scaled } = this;
    if (frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1) {
      assert(history !== undefined, 'penalties need the tokens so far');
      const repeated = repetitionPenalty === 1 ? [] : new Set([...history.prompt, ...present(history)]);
      for (const id of repeated) scaled[id]! *= scaled[id]! > 0 ? 1 / repetitionPenalty : repetitionPenalty;
      for (const id of present(history)) scaled[id]! -= frequencyPenalty * history.output.get(id)! + presencePenalty;
    }
    for (const [id, bias] of logitBias) scaled[id]! += bias;
  }

  private argmax(count: number): number {
    let best = 0;
    for (let id = 1; id < count; id++) if (this.scaled[id]! > this.scaled[best]!) best = id;
    return best;
  }

  private draw(vocabSize: number, best: number, params: SamplingParams, seed: number, outputIndex: number): number {
    const { ids, scaled } = this;
    const largest = scaled[best]! / params.temperature;
    let count = 0;
    for (let id = 0; id < vocabSize; id++) {
      const value = scaled[id]! / params.temperature;
      if (value < largest - REACH) continue;
      ids[count] = id;
      scaled[count++] = value;
    }
    if (params.topK > 0) count = keepTopK(ids, scaled, count, params.topK, largest);
    if (params.topP < 1) count = keepTopP(ids, scaled, count, params.topP, largest);
    return this.choose(count, largest, params.minP, seed, outputIndex);
  }

  /** Gumbel-max over the candidates: the largest of value + noise, the lowest id among equals. Begins with the likeliest. */
  private choose(count: number, largest: number, minP: number, seed: number, outputIndex: number): number {
    const { ids, scaled, noise } = this;
    noise.aim(seed, outputIndex);
    const floor = minP > 0 ? largest + ln(minP) : Number.NEGATIVE_INFINITY;
    let winner = ids[scaled.indexOf(largest)]!;
    let winning = largest + noise.at(winner);
    for (let i = 0; i < count; i++) {
      const value = scaled[i]!;
      const id = ids[i]!;
      if (value < floor || value + GUMBEL_MAX < winning || value + noise.bound(id) < winning) continue;
      const score = value + noise.at(id);
      if (score > winning || (score === winning && id < winner)) {
        winning = score;
        winner = id;
      }
    }
    return winner;
  }
}

function* present(history: TokenHistory): Iterable<number> {
  for (const [id, count] of history.output) if (count > 0) yield id;
}
