import { assertNever } from '@stet/backend';
import { HashChain } from '@stet/engine';
import type { CommitFrame, DoneFrame, ErrorFrame, StreamFrame } from '@stet/server/protocol';

/** `lost`: something before this frame did not come. `reordered`: it came before. `wrong`: it says what is not so. */
export type ViolationKind = 'lost' | 'reordered' | 'wrong';

/** A frame that breaks a rule of docs/PROTOCOL.md. */
export class Violation extends Error {
  constructor(
    readonly kind: ViolationKind,
    message: string,
  ) {
    super(message);
  }
}

/** What a client has of one answer, perhaps from several streams that went on with each other. */
export class Transcript {
  text = '';
  hash = '';
  #tokenCount = 0;
  readonly #chain = new HashChain();

  get tokenCount(): number {
    return this.#tokenCount;
  }

  append({ from, tokens, text, hash }: CommitFrame): void {
    checkNext(from, this.#tokenCount, 'from of a commit');
    for (const token of tokens) this.#chain.push(token);
    this.#tokenCount += tokens.length;
    this.text += text;
    this.hash = hash;
    if (hash !== this.#chain.hex) throw new Violation('wrong', `hash of ${this.#tokenCount} tokens is not theirs`);
  }
}

/** Holds the frames of one stream against the rules of the protocol. */
export class StreamChecker {
  #seq = 0;
  /** Candidates that stand, after the committed tokens. */
  #candidates = 0;
  #state: 'new' | 'accepted' | 'ended' = 'new';

  constructor(readonly transcript: Transcript) {}

  /** Throws a {@link Violation}. */
  observe(frame: StreamFrame | ErrorFrame): void {
    if (this.#state === 'ended') throw new Violation('reordered', `a ${frame.type} came after the last frame`);
    checkNext(frame.seq ?? -1, this.#seq++, 'seq');
    if ((this.#state === 'new') !== (frame.type === 'accepted') && frame.type !== 'error')
      throw new Violation('wrong', `frame ${frame.seq} is ${frame.type}`);
    switch (frame.type) {
      case 'accepted':
        this.#state = 'accepted';
        if ((frame.after ?? 0) !== this.transcript.tokenCount)
          throw new Violation('wrong', `after is ${frame.after}, not ${this.transcript.tokenCount}`);
        return;
      case 'commit':
        this.transcript.append(frame);
        this.#candidates = Math.max(0, this.#candidates - frame.tokens.length);
        return;
      case 'provisional':
        checkNext(frame.from, this.transcript.tokenCount + this.#candidates, 'from of a provisional');
        this.#candidates += frame.tokens.length;
        return;
      case 'rollback':
        this.#rollBack(frame.to - this.transcript.tokenCount);
        return;
      case 'done':
        this.#state = 'ended';
        this.#checkDone(frame);
        return;
      case 'error':
        this.#state = 'ended';
        return;
      default:
        assertNever(frame);
    }
  }

  #rollBack(candidates: number): void {
    if (candidates < 0) throw new Violation('wrong', 'a rollback withdraws committed tokens');
    this.#candidates = Math.min(this.#candidates, candidates);
  }

  #checkDone({ usage, receipt }: DoneFrame): void {
    const { tokenCount, hash } = this.transcript;
    if (usage.completionTokens !== tokenCount)
      throw new Violation('lost', `done counts ${usage.completionTokens} tokens, and ${tokenCount} came`);
    if (receipt && (receipt.outputHash !== hash || receipt.outputTokens !== tokenCount))
      throw new Violation('wrong', 'the receipt is of another answer');
  }
}

function checkNext(actual: number, expected: number, what: string): void {
  if (actual === expected) return;
  throw new Violation(actual > expected ? 'lost' : 'reordered', `${what} is ${actual}, expected ${expected}`);
}
