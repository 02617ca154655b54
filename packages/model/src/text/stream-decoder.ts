import type { Tokenizer } from './tokenizer.js';
import { incompleteTail } from './utf8.js';

/**
 * Where a text stands after some tokens. An immutable value of a few bytes: keep one to come back to it, as a rollback
 * does.
 */
export interface DecodeState {
  /** Bytes of a character that is not whole yet, at most 3. */
  readonly pending: readonly number[];
  readonly place: 'first' | 'inside';
  /** Spaces that may still be taken off the start of the text. */
  readonly leadingSpaces: number;
}

/**
 * Decodes token by token. The text of all calls and the final flush, concatenated, is what decoding all tokens at once
 * gives, and no call gives part of a character. Pure: the same state and token always give the same.
 */
export interface StreamDecoder {
  /** The start of a text. */
  readonly initial: DecodeState;
  /** Where the text stands after a prompt: what follows keeps its first space, and may complete the prompt's last character. */
  after(promptIds: Iterable<number>): DecodeState;
  next(state: DecodeState, tokenId: number): { readonly state: DecodeState; readonly text: string };
  /** What a text that ends here still owes: U+FFFD for a character that never became whole. */
  flush(state: DecodeState): string;
}

/** `specialTokens`: `skip` leaves them out of the text (the default), `keep` writes them. */
export function createStreamDecoder(
  tokenizer: Pick<Tokenizer, 'pieces' | 'specialIds'>,
  { specialTokens = 'skip' }: { readonly specialTokens?: 'skip' | 'keep' } = {},
): StreamDecoder {
  const { pieces, specialIds } = tokenizer;
  const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
  const initial: DecodeState = { pending: [], place: 'first', leadingSpaces: pieces.leadingSpaces };
  const next = (state: DecodeState, tokenId: number): { state: DecodeState; text: string } => {
    if (specialTokens === 'skip' && specialIds.has(tokenId)) return { state, text: '' };
    const piece = pieces.bytes(tokenId, state.place);
    if (!piece) return { state, text: '' };
    let leadingSpaces = state.leadingSpaces;
    let start = 0;
    while (start < piece.length && leadingSpaces > 0) {
      if (piece[start] === 0x20) {
        start++;
        leadingSpaces--;
      } else leadingSpaces = 0;
    }
    const bytes = Uint8Array.from([...state.pending, ...piece.subarray(start)]);
    const whole = bytes.length - incompleteTail(bytes);
    return {
      state: { pending: [...bytes.subarray(whole)], place: 'inside', leadingSpaces },
      text: utf8.decode(bytes.subarray(0, whole)),
    };
  };
  return {
    initial,
    next,
    after: (promptIds) => {
      let state = initial;
      for (const id of promptIds) state = next(state, id).state;
      return state;
    },
    flush: (state) => utf8.decode(Uint8Array.from(state.pending)),
  };
}

/** The whole text of ids. */
export function decodeAtOnce(
  tokenizer: Pick<Tokenizer, 'pieces' | 'specialIds'>,
  ids: Iterable<number>,
  specialTokens: 'skip' | 'keep',
): string {
  const decoder = createStreamDecoder(tokenizer, { specialTokens });
  let state = decoder.initial;
  let text = '';
  for (const id of ids) {
    const step = decoder.next(state, id);
    state = step.state;
    text += step.text;
  }
  return text + decoder.flush(state);
}
