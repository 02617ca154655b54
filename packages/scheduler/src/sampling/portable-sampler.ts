import type { Draw, Drawn, TokenSampler } from '@stet/backend';
import { tokenLogprob } from './logprobs.js';
import { TokenDraw } from './token-draw.js';

/** The sampler that runs wherever JavaScript does, one draw after the other, at once. */
export class PortableSampler implements TokenSampler {
  private readonly tokens: TokenDraw;

  constructor(vocabSize: number) {
    this.tokens = new TokenDraw(vocabSize);
  }

  sample(draws: readonly Draw[]): readonly Drawn[] {
    return draws.map((draw) => {
      const token = this.tokens.draw(draw);
      if (draw.topLogprobs === undefined) return { token };
      return { token, logprob: tokenLogprob(draw.logits, token, draw.topLogprobs) };
    });
  }
}
