import type { GenerateRequest } from '../api.js';
import type { ModelText } from './model-text.js';

/** A token of a prompt with the text that becomes whole with it. */
export interface PromptPiece {
  readonly token: number;
  readonly text: string;
}

/** A prompt, given as text or as tokens, token by token: the texts joined are what the tokens spell. */
export function promptPieces(
  { prompt = '', promptTokens }: Pick<GenerateRequest, 'prompt' | 'promptTokens'>,
  { decoder, encode }: Pick<ModelText, 'decoder' | 'encode'>,
): readonly PromptPiece[] {
  const tokens = promptTokens ?? encode(prompt);
  let state = decoder.after([]);
  return tokens.map((token, index) => {
    const next = decoder.next(state, token);
    state = next.state;
    const isLast = index === tokens.length - 1;
    return { token, text: isLast ? next.text + decoder.flush(state) : next.text };
  });
}
