import type { StopMatcher } from '@stet/scheduler';
import { StopAutomaton } from './stop-automaton.js';

/** What the engine needs of a stream decoder: immutable states, text only of whole characters. */
export interface TextDecoder<Decode> {
  /** The state after a prompt, whose text the output continues. */
  after(promptTokens: Iterable<number>): Decode;
  next(state: Decode, token: number): { readonly state: Decode; readonly text: string };
  /** What the bytes that are still waiting become at the end. */
  flush(state: Decode): string;
}

/** After some output token. A rollback is taking an older state. */
export interface TextState<Decode> {
  readonly decode: Decode;
  /** Text that is whole but may yet begin a stop string. */
  readonly held: string;
  /** Characters of each stop string that the text ends with. */
  readonly matched: readonly number[];
  /** Text that became final with the last token. */
  readonly released: string;
  /** The last token completed a stop string. */
  readonly stopped: boolean;
}

export interface TextMachineOptions {
  readonly promptTokens: Iterable<number>;
  readonly stops: readonly string[];
  /** Tokens that spell nothing: those that end the output. */
  readonly silentTokens: ReadonlySet<number>;
}

/**
 * From output tokens to text, for candidates and commits alike. Text waits while its last character lacks bytes or
 * while its end may begin a stop string. A stop string ends the text before it, while the token that completes it is
 * still the output's last id: ids, log-probabilities and text end at the same token.
 */
export class TextMachine<Decode> implements StopMatcher<TextState<Decode>> {
  readonly initial: TextState<Decode>;
  readonly #decoder: TextDecoder<Decode>;
  readonly #stops: StopAutomaton | undefined;
  readonly #silentTokens: ReadonlySet<number>;

  constructor(decoder: TextDecoder<Decode>, options: TextMachineOptions) {
    const { promptTokens, stops, silentTokens } = options;
    this.#decoder = decoder;
    this.#stops = stops.length > 0 ? new StopAutomaton(stops) : undefined;
    this.#silentTokens = silentTokens;
    this.initial = {
      decode: decoder.after(promptTokens),
      held: '',
      matched: this.#stops?.initial ?? [],
      released: '',
      stopped: false,
    };
  }

  next(state: TextState<Decode>, token: number): TextState<Decode> {
    if (state.stopped || this.#silentTokens.has(token)) return { ...state, released: '' };
    const { state: decode, text } = this.#decoder.next(state.decode, token);
    if (!this.#stops) return { ...state, decode, released: text };
    const outcome = this.#stops.feed(state.matched, text);
    const whole = state.held + text;
    if (outcome.kind === 'found') {
      const end = state.held.length + outcome.end - outcome.length;
      return { decode, held: '', matched: state.matched, released: whole.slice(0, end), stopped: true };
    }
    const kept = whole.length - Math.max(...outcome.matched);
    const { matched } = outcome;
    return { decode, held: whole.slice(kept), matched, released: whole.slice(0, kept), stopped: false };
  }

  matched(state: TextState<Decode>): boolean {
    return state.stopped;
  }

  /**
   * The text that is still held when the output ends. A replacement character that stands for missing bytes is not
   * searched for stop strings: it was never spelled.
   */
  finish(state: TextState<Decode>): string {
    return state.stopped ? '' : state.held + this.#decoder.flush(state.decode);
  }
}
