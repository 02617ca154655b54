import { StetError } from '@stet/backend';
import type { protocolLimits } from '@stet/server/protocol';

// Written out here, with the type of the protocol's own constant: the schemas stay out of a browser's bundle.
const MAX_CREDIT_TOKENS: (typeof protocolLimits)['maxCreditTokens'] = 1_000_000;

/**
 * What the server may send of one stream, so that at most `windowTokens` are under way or unread. As the reader goes on
 * credit is given anew, half a window at once.
 */
export class CreditWindow {
  #openTokens = 0;
  #unreadTokens = 0;

  /** Throws `STET_ERR_UNSUPPORTED` for a window out of range. */
  constructor(private readonly windowTokens: number) {
    if (!(Number.isSafeInteger(windowTokens) && windowTokens >= 1 && windowTokens <= MAX_CREDIT_TOKENS))
      throw new StetError(
        'STET_ERR_UNSUPPORTED',
        `creditTokens: a whole number from 1 to ${MAX_CREDIT_TOKENS}, not ${windowTokens}`,
      );
  }

  /** The credit of a request that begins, or goes on, on a new connection: what was open on the old one is void. */
  start(): number {
    this.#openTokens = Math.max(1, this.windowTokens - this.#unreadTokens);
    return this.#openTokens;
  }

  onReceived(tokenCount: number): void {
    this.#openTokens -= tokenCount;
    this.#unreadTokens += tokenCount;
  }

  /** Returns the tokens to give credit for now; 0 for none yet. */
  onRead(tokenCount: number): number {
    this.#unreadTokens -= tokenCount;
    const grant = this.windowTokens - this.#openTokens - this.#unreadTokens;
    if (grant < this.windowTokens / 2) return 0;
    this.#openTokens += grant;
    return grant;
  }
}
