import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/**
 * The running hash of an output: h0 = SHA-256("stet output 1"), h(i+1) = SHA-256(h(i) ‖ u32le(token i)). It covers the
 * token ids and nothing else, so equal outputs have equal hashes whatever produced them, and a client can compute it.
 */
export class HashChain {
  #digest = sha256(utf8ToBytes('stet output 1'));
  readonly #block = new Uint8Array(36);

  push(token: number): void {
    this.#block.set(this.#digest);
    new DataView(this.#block.buffer).setUint32(32, token, true);
    this.#digest = sha256(this.#block);
  }

  get hex(): string {
    return bytesToHex(this.#digest);
  }
}

/** SHA-256("stet prompt 1" ‖ u32le of every id), hex. */
export function hashPrompt(tokens: ArrayLike<number>): string {
  const tag = utf8ToBytes('stet prompt 1');
  const bytes = new Uint8Array(tag.length + 4 * tokens.length);
  bytes.set(tag);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < tokens.length; i++) view.setUint32(tag.length + 4 * i, tokens[i]!, true);
  return bytesToHex(sha256(bytes));
}
