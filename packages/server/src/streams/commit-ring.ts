import { assert } from '@stet/backend';
import type { ByteBudget } from './byte-budget.js';

/** Output tokens `from` … `to` - 1, as the body of their frame; see `frame-body.ts`. */
export interface KeptCommit {
  readonly from: number;
  readonly to: number;
  readonly body: string;
}

/** The latest commits of one stream: those that were not sent, and before them as many as may be kept for a resume. */
export class CommitRing {
  readonly #commits: (KeptCommit & { readonly bytes: number })[] = [];
  #start: number;
  #end: number;
  #bytes = 0;

  /** `start`: output index of the first token that will come. */
  constructor(
    start: number,
    private readonly limitBytes: number,
    private readonly budget: ByteBudget,
  ) {
    this.#start = start;
    this.#end = start;
  }

  /** Output tokens before this index are forgotten. */
  get start(): number {
    return this.#start;
  }

  /** Output tokens that were committed. */
  get end(): number {
    return this.#end;
  }

  /** Whether one more commit may be kept without forgetting any. */
  get hasRoom(): boolean {
    return this.#bytes < this.limitBytes && !this.budget.isSpent;
  }

  push(commit: KeptCommit): void {
    assert(commit.from === this.#end && commit.to > commit.from, `a commit begins at ${commit.from}, not ${this.#end}`);
    const bytes = Buffer.byteLength(commit.body);
    this.#commits.push({ ...commit, bytes });
    this.#end = commit.to;
    this.#count(bytes);
  }

  /** The commit that begins at output token `index`. */
  at(index: number): KeptCommit | undefined {
    const found = this.#commits[this.#search(index)];
    return found?.from === index ? found : undefined;
  }

  /** Whether a reader that has `index` tokens can be given the rest. */
  isBoundary(index: number): boolean {
    return index === this.#end || this.at(index) !== undefined;
  }

  /** Forgets the oldest commits that a reader with `index` tokens has, until half the buffer is free for when it is lost. */
  trim(index: number): void {
    for (let oldest = this.#commits[0]; oldest !== undefined && oldest.to <= index; oldest = this.#commits[0]) {
      if (this.#bytes <= this.limitBytes / 2 && !this.budget.isSpent) return;
      this.#commits.shift();
      this.#start = oldest.to;
      this.#count(-oldest.bytes);
    }
  }

  clear(): void {
    this.#commits.length = 0;
    this.#start = this.#end;
    this.#count(-this.#bytes);
  }

  /** Index of the first commit that begins at or after `index`. */
  #search(index: number): number {
    const last = this.#commits.length - 1;
    // Nearly always it is the latest.
    if (last >= 0 && this.#commits[last]!.from === index) return last;
    let low = 0;
    let high = this.#commits.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#commits[middle]!.from < index) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.budget.add(bytes);
  }
}
