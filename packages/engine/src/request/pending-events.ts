import { assert } from '@stet/backend';
import type { GenerateEvent, TokenLogprobText } from '../api.js';

type EventOf<Type extends GenerateEvent['type']> = Extract<GenerateEvent, { type: Type }>;

/** A candidate with the text that it alone releases. */
export interface CandidateText {
  readonly token: number;
  readonly text: string;
}

/** Output tokens `from`, … are final: for each, the text that it released and the hash of all tokens up to it. */
export interface CommittedTokens {
  readonly from: number;
  readonly tokens: readonly number[];
  readonly texts: readonly string[];
  readonly hashes: readonly string[];
  readonly logprobs?: readonly TokenLogprobText[];
  /** With the first tokens, of the prompt. */
  readonly promptLogprobs?: readonly TokenLogprobText[];
}

/**
 * The events that a reader has not fetched, merged without loss into at most one of each kind, in this order:
 * accepted, rollback, commit, provisional, done. A stream's memory does not grow with the number of events, only
 * with unread tokens, and those are limited.
 */
export class PendingEvents {
  #accepted: EventOf<'accepted'> | undefined;
  #rollbackTo: number | undefined;
  #commit: MergedCommit | undefined;
  #candidates: CandidateText[] = [];
  #done: EventOf<'done'> | undefined;
  /** Output tokens committed, read or not. */
  #committed = 0;
  /** Candidates before this index were read, and a rollback that waits to be read has not withdrawn them. */
  #told = 0;

  /** Output tokens, committed or candidates, that wait for the reader. */
  get unreadTokens(): number {
    return (this.#commit?.tokenCount ?? 0) + this.#candidates.length;
  }

  accept(event: EventOf<'accepted'>): void {
    this.#accepted = event;
  }

  commit(event: CommittedTokens): void {
    assert(event.from === this.#committed, `a commit begins at ${event.from}, expected ${this.#committed}`);
    const before = this.#candidatesFrom;
    this.#committed += event.tokens.length;
    this.#candidates.splice(0, this.#candidatesFrom - before);
    if (this.#commit) this.#commit.append(event);
    else this.#commit = new MergedCommit(event);
  }

  /** Candidates from output index `from` on, which is where the known ones end. */
  provisional(from: number, candidates: readonly CandidateText[]): void {
    const end = this.#candidatesFrom + this.#candidates.length;
    assert(from === end, `candidates begin at ${from}, expected ${end}`);
    this.#candidates.push(...candidates);
  }

  /** Withdraws candidates from output index `to` on; the reader hears of it if it was told of one of them. */
  rollback(to: number): void {
    if (to < this.#told) {
      this.#rollbackTo = to;
      this.#told = to;
      this.#candidates = [];
    } else {
      this.#candidates.splice(Math.max(0, to - this.#candidatesFrom));
    }
  }

  finish(event: EventOf<'done'>): void {
    this.rollback(this.#committed);
    this.#done = event;
  }

  /** The next event, which then counts as read; a commit is cut after `maxTokens`. */
  take(maxTokens = Number.POSITIVE_INFINITY): GenerateEvent | undefined {
    if (this.#accepted) {
      const event = this.#accepted;
      this.#accepted = undefined;
      return event;
    }
    if (this.#rollbackTo !== undefined) {
      const to = this.#rollbackTo;
      this.#rollbackTo = undefined;
      return { type: 'rollback', to };
    }
    if (this.#commit) {
      const event = this.#commit.take(maxTokens);
      if (this.#commit.tokenCount === 0) this.#commit = undefined;
      return event;
    }
    if (this.#candidates.length > 0) return this.#takeCandidates();
    const event = this.#done;
    this.#done = undefined;
    return event;
  }

  #takeCandidates(): GenerateEvent {
    const from = this.#candidatesFrom;
    const tokens = this.#candidates.map((candidate) => candidate.token);
    const text = this.#candidates.map((candidate) => candidate.text).join('');
    this.#told = from + tokens.length;
    this.#candidates = [];
    return { type: 'provisional', from, tokens, text };
  }

  /** Output index of the first candidate that the reader has neither read nor seen committed. */
  get #candidatesFrom(): number {
    return Math.max(this.#committed, this.#told);
  }
}

/** Commits that wait, as one from which any number of tokens can be taken. */
class MergedCommit {
  #from: number;
  readonly #tokens: number[] = [];
  readonly #texts: string[] = [];
  readonly #hashes: string[] = [];
  readonly #logprobs: TokenLogprobText[] | undefined;
  #promptLogprobs: readonly TokenLogprobText[] | undefined;

  constructor(first: CommittedTokens) {
    this.#from = first.from;
    this.#logprobs = first.logprobs && [];
    this.#promptLogprobs = first.promptLogprobs;
    this.append(first);
  }

  get tokenCount(): number {
    return this.#tokens.length;
  }

  append({ tokens, texts, hashes, logprobs }: CommittedTokens): void {
    this.#tokens.push(...tokens);
    this.#texts.push(...texts);
    this.#hashes.push(...hashes);
    if (logprobs) this.#logprobs?.push(...logprobs);
  }

  /** Removes the first tokens, `maxTokens` of them or all. */
  take(maxTokens: number): EventOf<'commit'> {
    const from = this.#from;
    const count = Math.min(maxTokens, this.#tokens.length);
    const hash = this.#hashes[count - 1];
    assert(hash !== undefined, 'a commit that waits has tokens');
    this.#hashes.splice(0, count);
    this.#from += count;
    const promptLogprobs = this.#promptLogprobs;
    this.#promptLogprobs = undefined;
    return {
      type: 'commit',
      from,
      tokens: this.#tokens.splice(0, count),
      text: this.#texts.splice(0, count).join(''),
      ...(this.#logprobs && { logprobs: this.#logprobs.splice(0, count) }),
      ...(promptLogprobs && { promptLogprobs }),
      hash,
    };
  }
}
