import type { LoopStream } from '../closed-loop.js';

export const ELEVEN = 11;
export const ELEVEN_PROMPT_TOKENS = 32;

export interface ElevenStreams {
  /** {@link ELEVEN} by default. */
  readonly streams?: number;
  /** So many of them, the last ones. */
  readonly deterministic: number;
  /** Of the shortest answer; others have up to ten more. */
  readonly outputTokens: number;
}

/** Greedy streams of a closed loop, each from another place of the text. */
export function elevenStreams(
  text: readonly number[],
  { streams = ELEVEN, deterministic, outputTokens }: ElevenStreams,
): LoopStream[] {
  const stride = Math.floor((text.length - ELEVEN_PROMPT_TOKENS) / ELEVEN);
  return Array.from({ length: streams }, (_, stream) => ({
    role: 'measured',
    request: (index) => ({
      promptTokens: text.slice(stride * stream, stride * stream + ELEVEN_PROMPT_TOKENS),
      // Streams end at different times, as they do where nobody arranges them.
      maxTokens: outputTokens + ((stream * 5 + index * 3) % 11),
      temperature: 0,
      seed: 0,
      ignoreEos: true,
      deterministic: stream >= streams - deterministic,
    }),
  }));
}
