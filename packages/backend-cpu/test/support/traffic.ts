import { type Batch, OUTPUT_ARGMAX, OUTPUT_LOGITS } from '@stet/backend';
import type { Random } from './random.js';

interface Sequence {
  position: number;
  readonly blocks: number[];
}

/**
 * Random batches of one schedule over a pool of blocks: prompts and decode rows of several sequences, rewritten
 * positions, sequences that begin with full blocks of another one, block tables longer than needed.
 */
export class Traffic {
  readonly #random: Random;
  readonly #free: number[];
  readonly #limits: TrafficLimits;
  #sequences: Sequence[] = [];

  /** Takes its blocks from `blocks` alone. */
  constructor(random: Random, blocks: readonly number[], limits: TrafficLimits) {
    this.#random = random;
    this.#free = random.shuffle(blocks);
    this.#limits = limits;
  }

  next(): Batch {
    const random = this.#random;
    if (this.#sequences.length === 0 || random.chance(0.3)) this.#begin();
    const rows: SequenceRows[] = [];
    let left = this.#limits.maxRows;
    const written = new Set<number>();
    for (const sequence of random.shuffle(this.#sequences).slice(0, random.between(1, 8))) {
      if (left === 0) break;
      const step = this.#advance(sequence, left, written);
      if (!step) continue;
      rows.push(step);
      left -= step.count;
    }
    return rows.length > 0 ? this.#batch(rows) : this.#restart();
  }

  /** Forgets all sequences, so that there are blocks again. */
  #restart(): Batch {
    for (const sequence of this.#sequences) this.#free.push(...sequence.blocks.filter((b) => !this.#free.includes(b)));
    this.#sequences = [];
    return this.next();
  }

  #begin(): void {
    const random = this.#random;
    const { blockSize } = this.#limits;
    const parent = this.#sequences.length > 0 ? random.pick(this.#sequences) : undefined;
    const shared = parent ? random.between(0, Math.floor(parent.position / blockSize)) : 0;
    // A parent rewinds at most within its own blocks past those that it shares.
    if (parent && shared > 0 && random.chance(0.5)) {
      this.#sequences = this.#sequences.filter((sequence) => sequence !== parent);
      this.#sequences.push({ position: shared * blockSize, blocks: parent.blocks.slice(0, shared) });
      return;
    }
    this.#sequences.push({ position: 0, blocks: [] });
  }

  #advance(sequence: Sequence, left: number, written: Set<number>): SequenceRows | undefined {
    const random = this.#random;
    const { blockSize, contextLength } = this.#limits;
    // Now and then a position is written again, as a verify pass does.
    const rewind = random.chance(0.3) ? random.between(0, Math.min(3, sequence.position)) : 0;
    const first = sequence.position - rewind;
    const wanted = random.chance(0.4) ? 1 : random.pick([2, 3, 16, 17, 40, 90]);
    const count = Math.min(wanted, left, contextLength - first);
    if (count < 1) return undefined;
    const needed = Math.ceil((first + count) / blockSize);
    while (sequence.blocks.length < needed) {
      const block = this.#free.pop();
      if (block === undefined) return undefined;
      sequence.blocks.push(block);
    }
    for (const block of sequence.blocks.slice(Math.floor(first / blockSize), needed)) {
      if (written.has(block)) return undefined;
      written.add(block);
    }
    sequence.position = first + count;
    return { first, count, blocks: [...sequence.blocks] };
  }

  #batch(rows: readonly SequenceRows[]): Batch {
    const random = this.#random;
    const rowStarts = [0];
    const blockStarts = [0];
    for (const { count, blocks } of rows) {
      rowStarts.push(rowStarts.at(-1)! + count);
      blockStarts.push(blockStarts.at(-1)! + blocks.length);
    }
    const rowCount = rowStarts.at(-1)!;
    const outputRows = Array.from({ length: rowCount }, (_, row) => row).filter(() => random.chance(0.4));
    return {
      tokens: Int32Array.from({ length: rowCount }, () => random.between(0, this.#limits.vocabSize - 1)),
      positions: Int32Array.from(
        rows.flatMap(({ first, count }) => Array.from({ length: count }, (_, i) => first + i)),
      ),
      rowStarts: Int32Array.from(rowStarts),
      blockStarts: Int32Array.from(blockStarts.slice(0, -1)),
      blocks: Int32Array.from(rows.flatMap(({ blocks }) => blocks)),
      outputRows: Int32Array.from(outputRows),
      outputKinds: Uint8Array.from(outputRows, () => random.pick([OUTPUT_ARGMAX, OUTPUT_LOGITS])),
    };
  }
}

export interface TrafficLimits {
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly blockSize: number;
  readonly maxRows: number;
}

interface SequenceRows {
  readonly first: number;
  readonly count: number;
  readonly blocks: readonly number[];
}
