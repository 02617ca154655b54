import type { Batch } from '../batch.js';

/** Which blocks the sequences of a batch under construction read and write: the port lets no block be written that another sequence, or the same one elsewhere in its table, has. */
export class BlockClaims {
  /** writtenIn[block] === epoch: a sequence writes it; a new epoch forgets all. */
  readonly #writtenIn: Float64Array;
  readonly #readIn: Float64Array;
  #epoch = 0;

  constructor(blockCount: number) {
    this.#writtenIn = new Float64Array(blockCount);
    this.#readIn = new Float64Array(blockCount);
  }

  /** Forgets all claims. */
  begin(): void {
    this.#epoch++;
  }

  /**
   * Claims the first `end` blocks of the table of sequence s, those from index `firstWritten` on to be written. False if
   * that breaks the rule; then the claim was not made.
   */
  claim(batch: Batch, s: number, firstWritten: number, end: number): boolean {
    const start = batch.blockStarts[s]!;
    for (let i = 0; i < end; i++) {
      const block = batch.blocks[start + i]!;
      if (this.#writtenIn[block] === this.#epoch) return false;
      if (i >= firstWritten && this.#readIn[block] === this.#epoch) return false;
    }
    for (let i = 0; i < end; i++) {
      const claimed = i < firstWritten ? this.#readIn : this.#writtenIn;
      claimed[batch.blocks[start + i]!] = this.#epoch;
    }
    return true;
  }
}
