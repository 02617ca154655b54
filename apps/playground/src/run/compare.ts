import { assert } from '@stet/backend';

export interface AnswerToken {
  readonly token: number;
  /** What the token spells by itself. */
  readonly text: string;
}

/** A whole answer. */
export interface Answer {
  readonly tokens: readonly AnswerToken[];
  readonly text: string;
  /** Of all tokens. */
  readonly hash: string;
}

/** Where an answer differs: its token there, absent where it has ended, and the characters of its text that are that token. */
export interface DifferentPlace {
  readonly token?: AnswerToken;
  readonly start: number;
  readonly end: number;
}

/** How two answers compare; `hashes` in the order of the answers. */
export type Verdict =
  | { readonly kind: 'equal'; readonly tokenCount: number; readonly hashes: readonly [string, string] }
  | {
      readonly kind: 'different';
      /** The first output token that differs or that one of them lacks. */
      readonly index: number;
      readonly places: readonly [DifferentPlace, DifferentPlace];
      readonly hashes: readonly [string, string];
    };

export function compareAnswers(a: Answer, b: Answer): Verdict {
  const hashes = [a.hash, b.hash] as const;
  const index = firstDifference(
    a.tokens.map(({ token }) => token),
    b.tokens.map(({ token }) => token),
  );
  if (index === undefined) {
    assert(a.hash === b.hash, 'the hashes of equal tokens are equal');
    return { kind: 'equal', tokenCount: a.tokens.length, hashes };
  }
  const common = commonPrefix(a.text, b.text);
  return { kind: 'different', index, places: [placeOf(a, index, common), placeOf(b, index, common)], hashes };
}

/** Undefined where the lists are the same. */
export function firstDifference(a: readonly number[], b: readonly number[]): number | undefined {
  for (let i = 0; i < Math.max(a.length, b.length); i++) if (a[i] !== b[i]) return i;
  return undefined;
}

/**
 * A token by itself may spell otherwise than in its text (half a character, a space that is dropped at the beginning);
 * then the place is where the texts part.
 */
function placeOf({ tokens, text }: Answer, index: number, common: number): DifferentPlace {
  const token = tokens[index];
  const before = tokens
    .slice(0, index)
    .map((one) => one.text)
    .join('');
  const start = text.startsWith(before) ? before.length : Math.min(common, text.length);
  if (token === undefined) return { start: text.length, end: text.length };
  const isSpelled = token.text !== '' && text.startsWith(token.text, start);
  return { token, start, end: isSpelled ? start + token.text.length : Math.min(start + 1, text.length) };
}

function commonPrefix(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}
