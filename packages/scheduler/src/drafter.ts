/** Guesses tokens for free, to be verified like any candidate. A wrong guess costs time and never a bit. */
export interface Drafter {
  readonly name: string;
  /** A source for one sequence. */
  open(): DraftSource;
}

export interface DraftSource {
  /**
   * Up to `maxTokens` tokens that may follow. `tokens` are prompt and committed output; from call to call they only
   * grow, so a source may keep what it has read.
   */
  propose(tokens: Int32Array, maxTokens: number): readonly number[];
}

export interface PromptLookupOptions {
  /** Tokens that must have stood there before, 3 by default. */
  readonly matchTokens?: number;
  /** Tokens proposed at most, 8 by default. */
  readonly draftTokens?: number;
}

/** Prompt look-up: what followed the last time the latest tokens stood in prompt or output. Costs nothing per context length. */
export function promptLookup(options: PromptLookupOptions = {}): Drafter {
  const { matchTokens = 3, draftTokens = 8 } = options;
  return {
    name: `prompt-lookup(${matchTokens},${draftTokens})`,
    open: () => new LookupSource(matchTokens, draftTokens),
  };
}

class LookupSource implements DraftSource {
  private readonly matchTokens: number;
  private readonly draftTokens: number;
  /** Hash of matchTokens tokens → position after their latest occurrence that something followed. */
  private readonly index = new Map<number, number>();
  /** Occurrences that end before this position are in the index. */
  private indexed: number;

  constructor(matchTokens: number, draftTokens: number) {
    this.matchTokens = matchTokens;
    this.draftTokens = draftTokens;
    this.indexed = matchTokens;
  }

  propose(tokens: Int32Array, maxTokens: number): readonly number[] {
    const { matchTokens, index } = this;
    for (; this.indexed < tokens.length; this.indexed++) index.set(this.hashBefore(tokens, this.indexed), this.indexed);
    if (tokens.length < matchTokens) return [];
    const found = index.get(this.hashBefore(tokens, tokens.length));
    if (found === undefined || !this.isSame(tokens, found, tokens.length)) return [];
    const draft: number[] = [];
    // A text that repeats itself goes on with its own guesses.
    for (let at = found; draft.length < Math.min(maxTokens, this.draftTokens); at++) {
      draft.push(at < tokens.length ? tokens[at]! : draft[at - tokens.length]!);
    }
    return draft;
  }

  private hashBefore(tokens: Int32Array, end: number): number {
    let hash = 0x811c9dc5;
    for (let i = end - this.matchTokens; i < end; i++) hash = Math.imul(hash ^ tokens[i]!, 0x01000193) ^ (hash >>> 15);
    return hash;
  }

  private isSame(tokens: Int32Array, a: number, b: number): boolean {
    for (let i = 1; i <= this.matchTokens; i++) if (tokens[a - i] !== tokens[b - i]) return false;
    return true;
  }
}
