import { HashChain } from '@stet/backend/hash-chain';
import type { SequenceEvent, TokenLogprob } from '@stet/scheduler';
import type { TokenLogprobText } from '../api.js';
import type { TextMachine, TextState } from '../text/text-machine.js';
import type { CandidateText, PendingEvents } from './pending-events.js';

/** The output of one request as it grows: committed ids turn into text and hash, candidates into text that may vanish. */
export class RequestOutput {
  readonly #machine: TextMachine<unknown>;
  readonly #tokenText: (token: number) => string;
  readonly #hash = new HashChain();
  /** After the last committed token. */
  #committed: TextState<unknown>;
  #tokenCount = 0;
  /** Of the prompt, until the first commit takes them along. */
  #promptLogprobs: TokenLogprobText[] | undefined;
  /** After each candidate beyond the committed tokens. */
  #candidates: TextState<unknown>[] = [];

  constructor(machine: TextMachine<unknown>, tokenText: (token: number) => string) {
    this.#machine = machine;
    this.#tokenText = tokenText;
    this.#committed = machine.initial;
  }

  get tokenCount(): number {
    return this.#tokenCount;
  }

  get hash(): string {
    return this.#hash.hex;
  }

  notePrompt({ logprobs }: Extract<SequenceEvent, { kind: 'promptLogprobs' }>): void {
    this.#promptLogprobs ??= [];
    for (const logprob of logprobs) this.#promptLogprobs.push(this.#withText(logprob));
  }

  /** `ends`: the output is complete with these tokens, so the text that is still held goes with them. */
  commit(event: Extract<SequenceEvent, { kind: 'commit' }>, ends: boolean, pending: PendingEvents): void {
    const texts: string[] = [];
    const hashes: string[] = [];
    for (const token of event.tokens) {
      this.#committed = this.#machine.next(this.#committed, token);
      texts.push(this.#committed.released);
      this.#hash.push(token);
      hashes.push(this.#hash.hex);
    }
    if (ends) texts[texts.length - 1] += this.#machine.finish(this.#committed);
    this.#tokenCount += event.tokens.length;
    this.#candidates.splice(0, event.tokens.length);
    const promptLogprobs = this.#promptLogprobs;
    this.#promptLogprobs = undefined;
    pending.commit({
      from: event.from,
      tokens: event.tokens,
      texts,
      ...(event.logprobs && { logprobs: event.logprobs.map((logprob) => this.#withText(logprob)) }),
      ...(promptLogprobs && { promptLogprobs }),
      hashes,
    });
  }

  provisional(event: Extract<SequenceEvent, { kind: 'provisional' }>, pending: PendingEvents): void {
    this.#candidates.length = event.from - this.#tokenCount;
    let state = this.#candidates.at(-1) ?? this.#committed;
    const candidates: CandidateText[] = [];
    for (const token of event.tokens) {
      state = this.#machine.next(state, token);
      this.#candidates.push(state);
      candidates.push({ token, text: state.released });
    }
    pending.provisional(event.from, candidates);
  }

  rollback(to: number, pending: PendingEvents): void {
    this.#candidates.length = Math.min(this.#candidates.length, Math.max(0, to - this.#tokenCount));
    pending.rollback(to);
  }

  #withText({ token, logprob, top }: TokenLogprob): TokenLogprobText {
    const withText = (entry: { readonly token: number; readonly logprob: number }) => ({
      token: entry.token,
      text: this.#tokenText(entry.token),
      logprob: entry.logprob,
    });
    return { ...withText({ token, logprob }), top: top.map(withText) };
  }
}
