import type { Batch } from '../batch.js';

/**
 * Which blocks the sequences of a batch under construction write: the port lets no block be written that another
 * sequence has. Only that a block is written before another sequence claims it must be looked for. The other way round it
 * cannot be: rows are fed in blocks that lack something, and whoever reads such a block is fed from there on itself.
 */
export class BlockClaims {
  /** writtenIn[block] === epoch: a sequence writes it; a new epoch forgets all. */
  readonly #writtenIn: Float64Array;
  #epoch = 0;

  constructor(blockCount: number) {
    this.#writtenIn = new Float64Array(blockCount);
  }

  /** Forgets all claims. */
  begin(): void {
    this.#epoch++;
  }

  /**
   * Claims the first `end` blocks of the table of sequence s, those from index `firstWritten` on to be written. False if
   * another sequence writes one of them; then nothing was claimed.
   */
  claim(batch: Batch, s: number, firstWritten: number, end: number): boolean {
    const start = batch.blockStarts[s]!;
    for (let i = start; i < start + end; i++) if (this.#writtenIn[batch.blocks[i]!] === this.#epoch) return false;
    for (let i = start + firstWritten; i < start + end; i++) this.#writtenIn[batch.blocks[i]!] = this.#epoch;
    return true;
  }
}
