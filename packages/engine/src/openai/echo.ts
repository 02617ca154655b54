import type { EngineInfo, GenerateRequest } from '../api.js';
import type { PromptPiece } from '../request/prompt-pieces.js';
import type { Done } from './answer.js';
import type { CompletionHost } from './choices.js';
import type { TranslatedParams } from './params.js';
import type { TextLogprobs } from './shapes.js';

/** What stands in front of each answer. */
export interface Echo {
  readonly text: string;
  readonly pieces: readonly PromptPiece[];
  /** `left-out`: no output was asked for, and that of the engine, which is at least one token, is not shown. */
  readonly output: 'kept' | 'left-out';
}

/**
 * The request that a completion with `echo` sends to the engine. Scores of a prompt are made to be compared, so they are
 * deterministic where nobody says otherwise and the backend can.
 */
export function echoRequest(
  { echo, request }: TranslatedParams,
  determinism: EngineInfo['deterministic'],
): GenerateRequest {
  if (!echo) return request;
  const { logprobs, maxTokens, deterministic = determinism !== 'none' } = request;
  return {
    ...request,
    ...(maxTokens === 0 && { maxTokens: 1 }),
    ...(logprobs !== undefined && { promptLogprobs: logprobs, deterministic }),
  };
}

/** What stands in front of the answers to each prompt; nothing where the answers do not begin with it. */
export function echoesOf({ echo, request, prompts }: TranslatedParams, host: CompletionHost): readonly Echo[] {
  if (!echo) return [];
  const output = request.maxTokens === 0 ? 'left-out' : 'kept';
  return prompts.map((prompt) => {
    const pieces = host.promptPieces(prompt);
    return { text: prompt.prompt ?? pieces.map((piece) => piece.text).join(''), pieces, output };
  });
}

/** The end of an answer as its reader sees it: one whose output is left out has no tokens, and no receipt of them. */
export function shownEnd(done: Done, echo: Echo | undefined): Done {
  if (echo?.output !== 'left-out') return done;
  const { receipt: _receipt, ...rest } = done;
  const { promptTokens } = done.usage;
  return {
    ...rest,
    finishReason: 'length',
    usage: { promptTokens, completionTokens: 0, totalTokens: promptTokens },
  };
}

export function joinLogprobs(first: TextLogprobs, second: TextLogprobs): TextLogprobs {
  return {
    tokens: [...first.tokens, ...second.tokens],
    token_logprobs: [...first.token_logprobs, ...second.token_logprobs],
    top_logprobs: [...first.top_logprobs, ...second.top_logprobs],
    text_offset: [...first.text_offset, ...second.text_offset],
  };
}
