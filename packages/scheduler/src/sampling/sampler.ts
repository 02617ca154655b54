import type { SamplingParams, TokenHistory } from '../request.js';
import { Adjuster } from './adjust.js';
import { TokenDraw } from './token-draw.js';

/** Draws tokens, from logits to the token. Its answers depend on its arguments alone; the instance only keeps scratch space. */
export class Sampler {
  private readonly adjuster: Adjuster;
  private readonly tokens: TokenDraw;

  constructor(vocabSize: number) {
    this.adjuster = new Adjuster(vocabSize);
    this.tokens = new TokenDraw(vocabSize);
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
    const adjusted = this.adjuster.adjust(logits, params, history);
    return this.tokens.draw({ logits, ...(adjusted && { adjusted }), params, seed, outputIndex });
  }
}
