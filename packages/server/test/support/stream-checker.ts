import { HashChain } from '@stet/engine';
import type { AcceptedFrame, DoneFrame, ErrorFrame, ServerFrame } from '@stet/server/protocol';

/** What one stream said so far. */
export class ObservedStream {
  tokens: number[] = [];
  text = '';
  hash = '';
  frames = 0;
  rollbacks = 0;
  accepted: AcceptedFrame | undefined;
  end: DoneFrame | ErrorFrame | undefined;
  /** Output tokens before the first that is sent. */
  after = 0;
  readonly #chain = new HashChain();
  #candidates: number[] = [];

  /** Throws at the first frame that breaks a rule of the protocol. */
  observe(frame: Exclude<ServerFrame, { type: 'pong' }>): void {
    expectEqual(frame.seq, this.frames, 'seq');
    if (this.end !== undefined) throw new Error(`a ${frame.type} frame came after the last frame`);
    if (this.frames === 0 && frame.type !== 'accepted' && frame.type !== 'error')
      throw new Error(`the first frame is ${frame.type}`);
    this.frames++;
    switch (frame.type) {
      case 'accepted':
        expectEqual(frame.seq, 0, 'seq of accepted');
        this.accepted = frame;
        this.after = frame.after ?? 0;
        return;
      case 'commit':
        expectEqual(frame.from, this.tokenCount, 'from of a commit');
        this.tokens.push(...frame.tokens);
        this.text += frame.text;
        this.hash = frame.hash;
        this.#checkHash(frame.tokens, frame.hash);
        this.#candidates = this.#candidates.slice(frame.tokens.length);
        return;
      case 'provisional':
        expectEqual(frame.from, this.tokenCount + this.#candidates.length, 'from of a provisional');
        this.#candidates.push(...frame.tokens);
        return;
      case 'rollback':
        if (frame.to < this.tokenCount) throw new Error('a rollback withdraws committed tokens');
        this.#candidates = this.#candidates.slice(0, frame.to - this.tokenCount);
        this.rollbacks++;
        return;
      case 'done':
        expectEqual(frame.usage.completionTokens, this.tokenCount, 'tokens of a finished stream');
        this.end = frame;
        return;
      case 'error':
        this.end = frame;
        return;
    }
  }

  /** Output tokens that the client has, those before this stream included. */
  get tokenCount(): number {
    return this.after + this.tokens.length;
  }

  #checkHash(tokens: readonly number[], hash: string): void {
    if (this.after > 0) return;
    for (const token of tokens) this.#chain.push(token);
    expectEqual(hash, this.#chain.hex, 'hash of a commit');
  }
}

function expectEqual(actual: unknown, expected: unknown, what: string): void {
  if (actual !== expected) throw new Error(`${what} is ${actual}, not ${expected}`);
}
