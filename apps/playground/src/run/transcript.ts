import { assert, assertNever } from '@stet/backend';
import type { GenerateEvent } from '@stet/engine';

/** Events that change the text of an answer. */
export type TextEvent = Extract<GenerateEvent, { type: 'commit' | 'provisional' | 'rollback' }>;

/** What an event does to the text on the page, in the order: final text, text that goes, candidates. */
export interface TextChange {
  /** To be added to the final text. */
  readonly committed: string;
  /** Candidates that turned out wrong. */
  readonly withdrawn: string;
  /** All candidates now. */
  readonly candidates: string;
}

/** Candidates that came together, whose text is known only as a whole: output tokens `from` .. `end` - 1. */
interface Chunk {
  readonly from: number;
  readonly end: number;
  readonly text: string;
}

/**
 * The text of one answer as it grows. Events count tokens and carry text of several at a time, so where a rollback or a
 * commit ends within a chunk, its text is parted as soon as the commit tells what the first part was.
 */
export class Transcript {
  #tokenCount = 0;
  #chunks: Chunk[] = [];

  /** Output tokens that are final. */
  get tokenCount(): number {
    return this.#tokenCount;
  }

  get #candidates(): string {
    return this.#chunks.map(({ text }) => text).join('');
  }

  apply(event: TextEvent): TextChange {
    switch (event.type) {
      case 'commit':
        return this.#commit(event.from, event.tokens.length, event.text);
      case 'provisional':
        return this.#extend(event.from, event.tokens.length, event.text);
      case 'rollback':
        return this.#rollback(event.to);
      default:
        return assertNever(event);
    }
  }

  #extend(from: number, tokenCount: number, text: string): TextChange {
    const end = this.#chunks.at(-1)?.end ?? this.#tokenCount;
    assert(from === end, `candidates begin at ${from}, expected ${end}`);
    this.#chunks.push({ from, end: from + tokenCount, text });
    return { committed: '', withdrawn: '', candidates: this.#candidates };
  }

  #rollback(to: number): TextChange {
    assert(to >= this.#tokenCount, `a rollback to ${to}, but ${this.#tokenCount} tokens are final`);
    const withdrawn = this.#chunks.filter(({ from }) => from >= to);
    this.#chunks = this.#chunks
      .filter(({ from }) => from < to)
      .map((chunk) => ({ ...chunk, end: Math.min(chunk.end, to) }));
    return { committed: '', withdrawn: withdrawn.map(({ text }) => text).join(''), candidates: this.#candidates };
  }

  #commit(from: number, tokenCount: number, text: string): TextChange {
    assert(from === this.#tokenCount, `a commit begins at ${from}, expected ${this.#tokenCount}`);
    this.#tokenCount += tokenCount;
    const candidates = this.#candidates;
    const kept = this.#chunks.filter(({ end }) => end > this.#tokenCount);
    if (kept.length === 0) {
      this.#chunks = [];
      return { committed: text, withdrawn: candidates.slice(commonPrefix(candidates, text)), candidates: '' };
    }
    assert(candidates.startsWith(text), 'candidates that are still there begin with what was committed');
    const [first, ...others] = kept;
    const othersLength = others.reduce((length, chunk) => length + chunk.text.length, 0);
    const rest = candidates.slice(text.length, candidates.length - othersLength);
    this.#chunks = [{ from: this.#tokenCount, end: first!.end, text: rest }, ...others];
    return { committed: text, withdrawn: '', candidates: this.#candidates };
  }
}

function commonPrefix(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}
