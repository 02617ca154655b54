import type { TokenLogprobText } from '../api.js';
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
    const label = (token: number) => tokenLabel(this.#tokenBytes(token));
    return {
      tokens: logprobs.map(({ token }) => label(token)),
      token_logprobs: logprobs.map(({ logprob }) => logprob),
      top_logprobs: logprobs.map(({ top }) => Object.fromEntries(top.map((one) => [label(one.token), one.logprob]))),
      text_offset: logprobs.map(({ token }) => this.#advance(token)),
    };
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
