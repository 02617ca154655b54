import { type Batch, tableLength } from '../batch.js';
import { assert } from '../errors.js';
import type { BackendInfo } from '../port.js';
import { BlockClaims } from './block-claims.js';
import { type FedRange, joinFed, onlyFed } from './fed-batch.js';
import { firstPosition, type KvLedger } from './kv-ledger.js';

/** One call of the fast backend on the way to a batch. */
export interface FastCall {
  /** `feed`: lacking rows alone, more calls follow; `last`: all rows of the batch, and perhaps lacking ones before them. */
  readonly kind: 'feed' | 'last';
  readonly batch: Batch;
  /** Rows of the call that are fed. */
  readonly fed: readonly FedRange[];
}

/**
 * Feeds the fast backend what it lacks. Rows are fed in the order of their positions, so that all they attend to is
 * there, a run of consecutive positions at a time, as the port wants them, and at most `maxRows` a call. Of sequences
 * that share lacking blocks one is fed, and the others find them filled. Lacking rows just before a sequence's own
 * rows, such as the last row of a window that matched, ride in the same call where they fit: most feeding costs no call.
 */
export class FeedPlanner {
  readonly #ledger: KvLedger;
  readonly #maxRows: number;
  readonly #claims: BlockClaims;

  constructor(ledger: KvLedger, { maxRows, blockCount }: Pick<BackendInfo, 'maxRows' | 'blockCount'>) {
    this.#ledger = ledger;
    this.#maxRows = maxRows;
    this.#claims = new BlockClaims(blockCount);
  }

  /** The next call; whoever makes it tells the ledger before the one after it is planned. */
  next(batch: Batch): FastCall {
    const runs = this.#firstRuns(batch);
    if (runs.length === 0) return { kind: 'last', batch, fed: [] };
    if (this.#canJoin(batch, runs)) return { kind: 'last', batch: joinFed(batch, runs, this.#ledger), fed: runs };
    const fed = this.#choose(batch, runs);
    assert(fed.length > 0, 'lacking rows that cannot be fed');
    return { kind: 'feed', batch: onlyFed(batch, fed, this.#ledger), fed };
  }

  /** The first run of lacking positions of every sequence that has one, before its own rows. */
  #firstRuns(batch: Batch): FedRange[] {
    const runs: FedRange[] = [];
    if (this.#ledger.lackingCount === 0) return runs;
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      const first = firstPosition(batch, s);
      const from = this.#ledger.firstLacking(batch, s, 0, first);
      if (from < first) runs.push({ s, from, end: this.#ledger.endOfLacking(batch, s, from, first) });
    }
    return runs;
  }

  /** All that is lacking stands just before own rows, there is room for it, and nobody else has the blocks. */
  #canJoin(batch: Batch, runs: readonly FedRange[]): boolean {
    const rowCount = runs.reduce((sum, { from, end }) => sum + end - from, batch.tokens.length);
    if (rowCount > this.#maxRows) return false;
    if (runs.some(({ s, end }) => end < firstPosition(batch, s))) return false;
    this.#claims.begin();
    let next = 0;
    for (let s = 0; s + 1 < batch.rowStarts.length; s++) {
      const from = runs[next]?.s === s ? runs[next++]!.from : firstPosition(batch, s);
      const { blockSize } = this.#ledger;
      if (!this.#claims.claim(batch, s, Math.floor(from / blockSize), tableLength(batch, s, blockSize))) return false;
    }
    return true;
  }

  /** As much of the runs as fits into one call, those that come first and share no block with one before. */
  #choose(batch: Batch, runs: readonly FedRange[]): FedRange[] {
    const { blockSize } = this.#ledger;
    const chosen: FedRange[] = [];
    let room = this.#maxRows;
    this.#claims.begin();
    for (const { s, from, end: runEnd } of runs) {
      const end = Math.min(runEnd, from + room);
      if (end === from) break;
      if (!this.#claims.claim(batch, s, Math.floor(from / blockSize), Math.ceil(end / blockSize))) continue;
      chosen.push({ s, from, end });
      room -= end - from;
    }
    return chosen;
  }
}
