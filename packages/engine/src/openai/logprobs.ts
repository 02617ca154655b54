import { assert } from '@stet/backend';
import type { TokenLogprobText } from '../api.js';
import type { PromptPiece } from '../request/prompt-pieces.js';
import type { ChatLogprobs, ChatTokenLogprob, TextLogprobs } from './shapes.js';

type TokenBytes = (token: number) => Uint8Array;

export function chatLogprobs(logprobs: readonly TokenLogprobText[], tokenBytes: TokenBytes): ChatLogprobs {
  const entry = ({ token, logprob }: { readonly token: number; readonly logprob: number }) => {
    const bytes = tokenBytes(token);
    return { token: tokenLabel(bytes), logprob, bytes: [...bytes] };
  };
  const content: ChatTokenLogprob[] = logprobs.map((one) => ({ ...entry(one), top_logprobs: one.top.map(entry) }));
  return { content, refusal: null };
}

/** Makes the legacy shape, chunk after chunk: offsets go on where the last chunk ended. */
export class TextLogprobWriter {
  readonly #tokenBytes: TokenBytes;
  readonly #decoder = new TextDecoder();
  #offset = 0;

  constructor(tokenBytes: TokenBytes) {
    this.#tokenBytes = tokenBytes;
  }

  write(logprobs: readonly TokenLogprobText[]): TextLogprobs {
    return {
      tokens: logprobs.map(({ token }) => this.#label(token)),
      token_logprobs: logprobs.map(({ logprob }) => logprob),
      top_logprobs: logprobs.map((one) => this.#top(one)),
      text_offset: logprobs.map(({ token }) => this.#advance(token)),
    };
  }

  /** The prompt in front of an answer; `logprobs` are those of its tokens but the first. To be written first. */
  writePrompt(pieces: readonly PromptPiece[], logprobs: readonly TokenLogprobText[]): TextLogprobs {
    assert(logprobs.length === pieces.length - 1, 'each token of a prompt but the first has a log-probability');
    return {
      tokens: pieces.map(({ token }) => this.#label(token)),
      token_logprobs: [null, ...logprobs.map(({ logprob }) => logprob)],
      top_logprobs: [null, ...logprobs.map((one) => this.#top(one))],
      text_offset: pieces.map(({ text }) => {
        const offset = this.#offset;
        this.#offset += text.length;
        return offset;
      }),
    };
  }

  #label(token: number): string {
    return tokenLabel(this.#tokenBytes(token));
  }

  #top({ top }: TokenLogprobText): Readonly<Record<string, number>> {
    return Object.fromEntries(top.map(({ token, logprob }) => [this.#label(token), logprob]));
  }

  #advance(token: number): number {
    const offset = this.#offset;
    this.#offset += this.#decoder.decode(this.#tokenBytes(token), { stream: true }).length;
    return offset;
  }
}

/** The token's text, or its bytes as OpenAI writes them where they are not whole characters. */
function tokenLabel(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
  }
}
