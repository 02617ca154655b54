/**
 * Finds the first of several strings in a text that arrives in pieces: one Knuth-Morris-Pratt automaton per string,
 * fed character by character, so the outcome does not depend on where the pieces were cut.
 */
export class StopAutomaton {
  readonly #stops: readonly string[];
  readonly #failures: readonly Int32Array[];
  /** No character of any string matched. */
  readonly initial: readonly number[];

  /** `stops`: non-empty strings. */
  constructor(stops: readonly string[]) {
    this.#stops = stops;
    this.#failures = stops.map(failureTable);
    this.initial = stops.map(() => 0);
  }

  /**
   * Feeds `piece` after `matched`, the characters of each string that the text so far ends with. The string that is
   * complete first wins; among those complete at the same character, the longest.
   */
  feed(matched: readonly number[], piece: string): StopOutcome {
    const lengths = [...matched];
    for (let i = 0; i < piece.length; i++) {
      let longest = 0;
      for (let s = 0; s < lengths.length; s++) {
        lengths[s] = this.#advance(s, lengths[s]!, piece.charCodeAt(i));
        if (lengths[s] === this.#stops[s]!.length) longest = Math.max(longest, lengths[s]!);
      }
      if (longest > 0) return { kind: 'found', end: i + 1, length: longest };
    }
    return { kind: 'open', matched: lengths };
  }

  #advance(s: number, length: number, character: number): number {
    const stop = this.#stops[s]!;
    const failure = this.#failures[s]!;
    while (length > 0 && stop.charCodeAt(length) !== character) length = failure[length - 1]!;
    return stop.charCodeAt(length) === character ? length + 1 : 0;
  }
}

export type StopOutcome =
  /** A string of `length` characters ends before character `end` of the piece. */
  | { readonly kind: 'found'; readonly end: number; readonly length: number }
  | { readonly kind: 'open'; readonly matched: readonly number[] };

/** failure[i]: length of the longest proper prefix of text that is also a suffix of text[0..i]. */
function failureTable(text: string): Int32Array {
  const failure = new Int32Array(text.length);
  for (let i = 1, length = 0; i < text.length; i++) {
    while (length > 0 && text[i] !== text[length]) length = failure[length - 1]!;
    if (text[i] === text[length]) length++;
    failure[i] = length;
  }
  return failure;
}
