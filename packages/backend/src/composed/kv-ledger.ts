import { type Batch, type Step, tableLength } from '../batch.js';
import { StetError } from '../errors.js';
import { ChainId } from './chain-id.js';

/** Who wrote a slot last. */
const NOBODY = 0;
const FAST = 1;
const CANONICAL = 2;

interface PoolSizes {
  readonly blockSize: number;
  /** Block 0 included, which is not tracked: nobody reads it. */
  readonly blockCount: number;
}

/**
 * What the two pools of a composed backend hold, slot by slot (a slot is an offset in a block; both pools use the same
 * ids). To the caller the two are one pool, in which a slot has what was written last:
 *
 * - `wanted` is the {@link ChainId} of that last write, whoever made it: the id of the slot before it in the writer's
 *   table, extended by the token. `tokens` has the token, so the row can be run again.
 * - `held` is the id of what stands in the fast pool; (0, 0) is what nobody knows.
 * - A slot is *lacking* where somebody wrote it and `held` is not `wanted`. Only a canonical write makes a slot lacking,
 *   or a fast batch that failed. A canonical write of the tokens that the fast backend had run there does not: its own
 *   K/V of them is as good.
 *
 * Invariants: `lackingIn[b]` counts the lacking slots of block b and `lackingCount` all of them; `fastIn[b]` counts the
 * slots of b that the fast schedule wrote last. Where the last write was canonical, the canonical pool holds `wanted`.
 *
 * The fast backend attends to K/V of both schedules, so it is fed. The canonical one needs nothing from the fast one: a
 * scheduler lets canonical rows attend to canonical K/V alone, since other K/V would make their bits depend on a batch.
 * `check` refuses a step that breaks this.
 */
export class KvLedger {
  readonly blockSize: number;
  /** Bytes of its arrays. */
  readonly bytes: number;
  lackingCount = 0;
  readonly #wantedHigh: Int32Array;
  readonly #wantedLow: Int32Array;
  readonly #heldHigh: Int32Array;
  readonly #heldLow: Int32Array;
  readonly #tokens: Int32Array;
  readonly #writers: Uint8Array;
  readonly #lackingIn: Int32Array;
  readonly #fastIn: Int32Array;
  readonly #id = new ChainId();

  constructor({ blockSize, blockCount }: PoolSizes) {
    const slotCount = blockSize * blockCount;
    this.blockSize = blockSize;
    this.#wantedHigh = new Int32Array(slotCount);
    this.#wantedLow = new Int32Array(slotCount);
    this.#heldHigh = new Int32Array(slotCount);
    this.#heldLow = new Int32Array(slotCount);
    this.#tokens = new Int32Array(slotCount);
    this.#writers = new Uint8Array(slotCount);
    this.#lackingIn = new Int32Array(blockCount);
    this.#fastIn = new Int32Array(blockCount);
    this.bytes = slotCount * (5 * Int32Array.BYTES_PER_ELEMENT + 1) + blockCount * 2 * Int32Array.BYTES_PER_ELEMENT;
  }

  /**
   * Throws `STET_ERR_BAD_BATCH` where a canonical row would attend to K/V that the fast schedule wrote last, or a fast
   * row to lacking K/V that cannot be made again, because what stood before it then was overwritten since. The step
   * keeps the rules of the port.
   */
  check({ fast, canonical }: Step): void {
    if (canonical) this.#checkCanonical(canonical);
    if (fast) this.#checkFast(fast);
  }

  /** The first lacking position of sequence s in `from` .. `end` - 1, or `end`. Blocks that lack nothing cost a look each. */
  firstLacking(batch: Batch, s: number, from: number, end: number): number {
    if (this.lackingCount === 0) return end;
    return this.#firstOf(batch, s, from, end, this.#lackingIn, (slot) => this.#isLacking(slot));
  }

  /** The first position of sequence s in `from` .. `end` - 1 that is not lacking, or `end`. */
  endOfLacking(batch: Batch, s: number, from: number, end: number): number {
    let position = from;
    while (position < end && this.#isLacking(this.#slot(batch, s, position))) position++;
    return position;
  }

  /** The token that was written last at a position of sequence s. */
  tokenAt(batch: Batch, s: number, position: number): number {
    return this.#tokens[this.#slot(batch, s, position)]!;
  }

  /** The canonical backend ran the rows. */
  wroteCanonical(batch: Batch): void {
    this.#write(batch, CANONICAL);
  }

  /** The fast backend ran the rows, and lacked nothing before them. */
  wroteFast(batch: Batch): void {
    this.#write(batch, FAST);
  }

  /** The fast backend ran lacking rows again: positions `from` .. `end` - 1 of sequence s. */
  fed(batch: Batch, s: number, from: number, end: number): void {
    for (let position = from; position < end; position++) {
      const slot = this.#slot(batch, s, position);
      this.#uncount(slot);
      this.#heldHigh[slot] = this.#wantedHigh[slot]!;
      this.#heldLow[slot] = this.#wantedLow[slot]!;
      this.#count(slot);
    }
  }

  /**
   * The fast backend failed at the batch: nobody knows what stands now in the blocks that it was to write. They are fed
   * again where others share them. What a failed batch itself was to write, by either backend, nobody may read before it
   * is written, so the ledger need not forget what stood there.
   */
  lostFast(batch: Batch): void {
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      const length = tableLength(batch, s, this.blockSize);
      for (let i = Math.floor(firstPosition(batch, s) / this.blockSize); i < length; i++) {
        this.#loseBlock(batch.blocks[batch.blockStarts[s]! + i]!);
      }
    }
  }

  #checkCanonical(batch: Batch): void {
    const isFast = (slot: number) => this.#writers[slot] === FAST;
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      const first = firstPosition(batch, s);
      const found = this.#firstOf(batch, s, 0, first, this.#fastIn, isFast);
      if (found < first) bad(`canonical: sequence ${s} attends to position ${found}, which the fast schedule wrote`);
    }
  }

  #checkFast(batch: Batch): void {
    if (this.lackingCount === 0) return;
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      const first = firstPosition(batch, s);
      for (let position = -1; ; ) {
        position = this.firstLacking(batch, s, position + 1, first);
        if (position === first) break;
        if (!this.#follows(batch, s, position)) {
          bad(`fast: what stands before position ${position} of sequence ${s} is not what it was computed after`);
        }
      }
    }
  }

  /** The last write of a position came after what now stands before it. */
  #follows(batch: Batch, s: number, position: number): boolean {
    const slot = this.#slot(batch, s, position);
    this.#seek(batch, s, position);
    this.#id.extend(this.#tokens[slot]!);
    return this.#id.isAt(this.#wantedHigh[slot]!, this.#wantedLow[slot]!);
  }

  #write(batch: Batch, writer: typeof FAST | typeof CANONICAL): void {
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      if (batch.blocks[batch.blockStarts[s]!] === 0) continue;
      this.#seek(batch, s, firstPosition(batch, s));
      for (let row = batch.rowStarts[s]!; row < batch.rowStarts[s + 1]!; row++) {
        this.#id.extend(batch.tokens[row]!);
        this.#writeSlot(this.#slot(batch, s, batch.positions[row]!), batch.tokens[row]!, writer);
      }
    }
  }

  #writeSlot(slot: number, token: number, writer: typeof FAST | typeof CANONICAL): void {
    const { high, low } = this.#id;
    this.#uncount(slot);
    this.#wantedHigh[slot] = high;
    this.#wantedLow[slot] = low;
    if (writer === FAST) {
      this.#heldHigh[slot] = high;
      this.#heldLow[slot] = low;
    }
    this.#tokens[slot] = token;
    this.#writers[slot] = writer;
    this.#count(slot);
  }

  #loseBlock(block: number): void {
    for (let slot = block * this.blockSize; slot < (block + 1) * this.blockSize; slot++) {
      this.#uncount(slot);
      this.#heldHigh[slot] = 0;
      this.#heldLow[slot] = 0;
      this.#count(slot);
    }
  }

  /** Sets `#id` to the id before a position of sequence s. */
  #seek(batch: Batch, s: number, position: number): void {
    if (position === 0) {
      this.#id.reset();
      return;
    }
    const before = this.#slot(batch, s, position - 1);
    this.#id.set(this.#wantedHigh[before]!, this.#wantedLow[before]!);
  }

  #firstOf(
    batch: Batch,
    s: number,
    from: number,
    end: number,
    countIn: Int32Array,
    matches: (slot: number) => boolean,
  ): number {
    const { blockSize } = this;
    for (let position = from; position < end; ) {
      const index = Math.floor(position / blockSize);
      const blockEnd = Math.min((index + 1) * blockSize, end);
      const block = batch.blocks[batch.blockStarts[s]! + index]!;
      if (countIn[block] === 0) position = blockEnd;
      for (; position < blockEnd; position++) if (matches(block * blockSize + (position % blockSize))) return position;
    }
    return end;
  }

  #slot(batch: Batch, s: number, position: number): number {
    const { blockSize } = this;
    return batch.blocks[batch.blockStarts[s]! + Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
  }

  #isLacking(slot: number): boolean {
    return (
      this.#writers[slot] !== NOBODY &&
      (this.#heldHigh[slot] !== this.#wantedHigh[slot] || this.#heldLow[slot] !== this.#wantedLow[slot])
    );
  }

  /** Before a slot changes: takes it out of the counts, into which {@link #count} puts it again. */
  #uncount(slot: number): void {
    this.#addToCounts(slot, -1);
  }

  #count(slot: number): void {
    this.#addToCounts(slot, 1);
  }

  #addToCounts(slot: number, change: 1 | -1): void {
    const block = Math.floor(slot / this.blockSize);
    if (this.#writers[slot] === FAST) this.#fastIn[block]! += change;
    if (!this.#isLacking(slot)) return;
    this.#lackingIn[block]! += change;
    this.lackingCount += change;
  }
}

/** Position of the first row of sequence s. */
export function firstPosition(batch: Batch, s: number): number {
  return batch.positions[batch.rowStarts[s]!]!;
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_BATCH', message);
}
