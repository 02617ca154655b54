/** Neighbouring symbols of a text, by the index of their first character; the caller keeps what they are. */
export interface MergeRule {
  /** Rank of the token that two neighbours make, the lowest is merged first; -1: they make none. Less than 2^22. */
  rank(left: number, right: number): number;
  /** They are one symbol now, at `left`. Called once for each merge, with the rank that was given. */
  merge(left: number, right: number, rank: number): void;
}

/** Ranks and places share a number of 52 bits. */
const PLACES = 2 ** 30;

/**
 * Byte pair encoding: merges the neighbours of the lowest rank, the leftmost among equals, until no two make a token.
 * Gives, for each symbol, the one that follows (`symbolCount` after the last); those that are left start at 0.
 * O(n log n): a heap holds every pair of neighbours that ever was, and one that is no more is skipped when it comes up.
 */
export function mergeSymbols(symbolCount: number, rule: MergeRule): number[] {
  const next: number[] = [];
  const previous: number[] = [];
  /** Where a symbol's characters end; 0 once it was merged into the one before. */
  const end: number[] = [];
  for (let i = 0; i < symbolCount; i++) {
    next.push(i + 1);
    previous.push(i - 1);
    end.push(i + 1);
  }
  const heap = new PairHeap();
  const offer = (left: number, right: number): void => {
    if (left < 0 || right >= symbolCount) return;
    const rank = rule.rank(left, right);
    if (rank >= 0) heap.push(rank * PLACES + left, right, end[right]!);
  };
  for (let right = 1; right < symbolCount; right++) offer(right - 1, right);
  while (heap.size > 0) {
    const { key, right, rightEnd } = heap.pop();
    const left = key % PLACES;
    // A symbol changes by taking in the one to its right, so these say whether both are as they were.
    if (end[left] === 0 || next[left] !== right || end[right] !== rightEnd) continue;
    rule.merge(left, right, (key - left) / PLACES);
    const after = next[right]!;
    end[left] = rightEnd;
    end[right] = 0;
    next[left] = after;
    if (after < symbolCount) previous[after] = left;
    offer(previous[left]!, left);
    offer(left, after);
  }
  return next;
}

/** A binary heap of pairs, the smallest key on top; keys are unique among pairs that still exist. */
class PairHeap {
  readonly #keys: number[] = [];
  readonly #rights: number[] = [];
  readonly #rightEnds: number[] = [];

  get size(): number {
    return this.#keys.length;
  }

  push(key: number, right: number, rightEnd: number): void {
    let at = this.#keys.length;
    this.#keys.push(key);
    this.#rights.push(right);
    this.#rightEnds.push(rightEnd);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#keys[parent]! <= key) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#set(at, key, right, rightEnd);
  }

  pop(): { key: number; right: number; rightEnd: number } {
    const top = { key: this.#keys[0]!, right: this.#rights[0]!, rightEnd: this.#rightEnds[0]! };
    const key = this.#keys.pop()!;
    const right = this.#rights.pop()!;
    const rightEnd = this.#rightEnds.pop()!;
    const size = this.#keys.length;
    if (size === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#keys[child + 1]! < this.#keys[child]!) child++;
      if (this.#keys[child]! >= key) break;
      this.#move(child, at);
      at = child;
    }
    this.#set(at, key, right, rightEnd);
    return top;
  }

  #move(from: number, to: number): void {
    this.#set(to, this.#keys[from]!, this.#rights[from]!, this.#rightEnds[from]!);
  }

  #set(at: number, key: number, right: number, rightEnd: number): void {
    this.#keys[at] = key;
    this.#rights[at] = right;
    this.#rightEnds[at] = rightEnd;
  }
}
