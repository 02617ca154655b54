import { assertNever } from '@stet/backend';
import { HashChain } from '@stet/backend/hash-chain';
import type { AcceptedFrame, CommitFrame, DoneFrame, ProvisionalFrame, StreamFrame } from '@stet/server/protocol';
import { badFrame, StreamError } from './stream-error.js';

/** What a stream can be gone on with by. */
export interface Acceptance {
  /** The handle on the server that accepted it last. */
  readonly stream: string;
  readonly fingerprint: string;
  readonly seed: number;
  readonly deterministic: boolean;
}

/**
 * What was received of one request, over all its connections, and the rules that it must keep: every token once and in
 * order, under the fingerprint and the seed of the beginning, with the hash of exactly these tokens.
 */
export class Transcript {
  readonly #chain: HashChain | undefined;
  #phase: 'accepting' | 'streaming' = 'accepting';
  #accepted: Acceptance | undefined;
  /** Whether the frames go on with what an earlier connection brought. */
  #course: 'first' | 'continued' = 'first';
  #tokenCount = 0;
  /** Up to this index the reader knows tokens, committed or candidates. */
  #knownCount = 0;
  /** Of the committed tokens, as the server said it. */
  #hash: string | undefined;

  /** `trust`: hashes are compared with each other, but not with the tokens. */
  constructor(hashes: 'verify' | 'trust') {
    this.#chain = hashes === 'verify' ? new HashChain() : undefined;
  }

  get accepted(): Acceptance | undefined {
    return this.#accepted;
  }

  get tokenCount(): number {
    return this.#tokenCount;
  }

  get hash(): string | undefined {
    return this.#hash;
  }

  get hasCandidates(): boolean {
    return this.#knownCount > this.#tokenCount;
  }

  /** Another stream follows, of a new request or of one that goes on. */
  begin(): void {
    this.#phase = 'accepting';
    if (this.#accepted !== undefined) this.#course = 'continued';
    this.forgetCandidates();
  }

  forgetCandidates(): void {
    this.#knownCount = this.#tokenCount;
  }

  /**
   * Takes the next frame, and says whether it is news to the reader: that a stream goes on is none. Throws a
   * `StreamError` for one that breaks a rule.
   */
  take(frame: StreamFrame): 'news' | 'known' {
    if ((frame.type === 'accepted') !== (this.#phase === 'accepting'))
      throw badFrame(`the server sent ${frame.type} out of order`);
    switch (frame.type) {
      case 'accepted':
        return this.#accept(frame);
      case 'commit':
        this.#commit(frame);
        return 'news';
      case 'provisional':
        checkTokens(frame);
        this.#expect('from', frame.from, this.#knownCount);
        this.#knownCount += frame.tokens.length;
        return 'news';
      case 'rollback':
        if (!(frame.to >= this.#tokenCount && frame.to <= this.#knownCount))
          throw badFrame(`the server withdrew tokens from ${frame.to} on, but ${this.#tokenCount} are final`);
        this.#knownCount = frame.to;
        return 'news';
      case 'done':
        this.#finish(frame);
        return 'news';
      default:
        return assertNever(frame);
    }
  }

  #accept(frame: AcceptedFrame): 'news' | 'known' {
    const { stream, fingerprint, seed, params, after = 0 } = frame;
    if (typeof stream !== 'string' || typeof fingerprint !== 'string' || typeof params !== 'object' || params === null)
      throw badFrame('the server sent a malformed accepted frame');
    const before = this.#accepted;
    if (before !== undefined) {
      this.#expect('fingerprint', fingerprint, before.fingerprint);
      this.#expect('seed', seed, before.seed);
    }
    this.#expect('after', after, this.#tokenCount);
    this.#phase = 'streaming';
    this.#accepted = { stream, fingerprint, seed, deterministic: params.deterministic };
    return before === undefined ? 'news' : 'known';
  }

  #commit(frame: CommitFrame): void {
    checkTokens(frame);
    this.#expect('from', frame.from, this.#tokenCount);
    this.#tokenCount += frame.tokens.length;
    this.#knownCount = Math.max(this.#knownCount, this.#tokenCount);
    this.#hash = frame.hash;
    if (this.#chain === undefined) return;
    for (const token of frame.tokens) this.#chain.push(token);
    this.#expect('hash', frame.hash, this.#chain.hex);
  }

  #finish({ usage, receipt }: DoneFrame): void {
    this.#expect('number of output tokens', usage?.completionTokens, this.#tokenCount);
    if (receipt === undefined) return;
    this.#expect('fingerprint of the receipt', receipt.fingerprint, this.#accepted?.fingerprint);
    this.#expect('seed of the receipt', receipt.seed, this.#accepted?.seed);
    const hash = this.#chain?.hex ?? this.#hash;
    if (hash !== undefined) this.#expect('output hash of the receipt', receipt.outputHash, hash);
  }

  /** Where a stream was gone on with, what differs comes from another output. */
  #expect(what: string, actual: unknown, expected: unknown): void {
    if (actual === expected) return;
    const message = `the ${what} is ${actual}, not ${expected}`;
    if (this.#course === 'first') throw badFrame(message);
    throw new StreamError('STET_ERR_RESUME_MISMATCH', `the stream does not go on as it began: ${message}`, {
      retryable: false,
    });
  }
}

function checkTokens({ type, tokens, text }: CommitFrame | ProvisionalFrame): void {
  const areTokens = Array.isArray(tokens) && tokens.every((token) => Number.isSafeInteger(token) && token >= 0);
  if (!areTokens || typeof text !== 'string') throw badFrame(`the server sent a malformed ${type} frame`);
}
