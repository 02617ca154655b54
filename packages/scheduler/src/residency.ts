import { assert } from '@stet/backend';
import type { KvCache } from '@stet/kv-cache';
import type { BlockArena } from './block-arena.js';
import type { SequenceEvent } from './events.js';
import { alignUp } from './fixed-shape.js';
import { SequenceQueue, serviceOrder } from './queues.js';
import type { Sequence } from './sequence.js';

/**
 * Who waits and who holds blocks. Admission gives a sequence the blocks of all its settled tokens, those the prefix
 * cache has among them; preemption takes a sequence's blocks and lets it wait. What was committed stays committed, and
 * row invariance restores the same K/V when it comes back.
 */
export class Residency {
  readonly waiting = new SequenceQueue();
  readonly running = new SequenceQueue();
  preemptions = 0;
  private readonly kv: KvCache;
  private readonly arena: BlockArena;
  private readonly maxRunning: number;
  /** Rows of a window of a fixed-shape backend, 1 otherwise: a deterministic table holds whole windows. */
  private readonly windowTokens: number;

  constructor(kv: KvCache, arena: BlockArena, maxRunning: number, windowTokens: number) {
    this.kv = kv;
    this.arena = arena;
    this.maxRunning = maxRunning;
    this.windowTokens = windowTokens;
  }

  /** Moves waiting sequences in service order into the running queue while there is room. */
  admit(nowMs: number, events: SequenceEvent[]): void {
    for (const sequence of this.waiting) {
      if (sequence.paused || this.mustWaitFor(sequence.request.after)) continue;
      if (!this.makeSeat(events) || !this.giveBlocks(sequence, events)) return;
      this.waiting.remove(sequence);
      this.running.add(sequence);
      sequence.phase = 'prefill';
      sequence.noteStarted(nowMs);
    }
  }

  /** Grows a running sequence's table to `positionCount`, preempting whoever is served after it. False: it must wait. */
  reserve(sequence: Sequence, positionCount: number, events: SequenceEvent[]): boolean {
    while (!this.grow(sequence, positionCount)) {
      const victim = this.victim(sequence);
      if (!victim) return false;
      this.preempt(victim, events);
    }
    return true;
  }

  /** Grows a running sequence's table without taking anything from others; false if there is no room. */
  grow(sequence: Sequence, positionCount: number): boolean {
    return this.kv.grow(sequence.table, this.needed(sequence, positionCount));
  }

  /** Takes the sequence out of its queue and frees its blocks. */
  remove(sequence: Sequence): void {
    assert(sequence.phase !== 'finished', `sequence ${sequence.id} is removed twice`);
    (sequence.phase === 'waiting' ? this.waiting : this.running).remove(sequence);
    this.dropBlocks(sequence);
    sequence.phase = 'finished';
  }

  /** A running sequence loses its blocks and candidates and waits. Full canonical blocks stay cached while there is room. */
  preempt(sequence: Sequence, events: SequenceEvent[]): void {
    this.running.remove(sequence);
    if (sequence.candidateCount > sequence.draftedCount && sequence.request.provisional) {
      events.push({ kind: 'rollback', id: sequence.id, to: sequence.committedCount });
    }
    sequence.takeCandidates();
    this.dropBlocks(sequence);
    sequence.phase = 'waiting';
    sequence.notePreemption();
    this.waiting.add(sequence);
    this.preemptions++;
  }

  /** All K/V is lost: every running sequence waits, and no block is worth anything to anybody. */
  preemptAll(events: SequenceEvent[]): void {
    for (const sequence of this.running) this.preempt(sequence, events);
    this.kv.clear();
  }

  /** True if one more may run; a paused sequence gives up its seat for one that can go on. */
  private makeSeat(events: SequenceEvent[]): boolean {
    if (this.running.length < this.maxRunning) return true;
    const paused = this.running.filter((other) => other.paused).at(-1);
    if (paused) this.preempt(paused, events);
    return paused !== undefined;
  }

  private mustWaitFor(id: string | undefined): boolean {
    if (id === undefined) return false;
    const isBefore = (other: Sequence) => other.id === id && other.committedCount === 0 && !other.paused;
    return this.waiting.some(isBefore) || this.running.some(isBefore);
  }

  private dropBlocks(sequence: Sequence): void {
    this.kv.shrink(sequence.table, 0);
    this.arena.forget(sequence.table);
    sequence.canonicalCount = 0;
    sequence.kvCount = 0;
    sequence.epoch++;
  }

  /** Paused sequences first, then the last in service order; never one that is served before the sequence that asks. */
  private victim(asking: Sequence): Sequence | undefined {
    let last: Sequence | undefined;
    for (const candidate of this.running.backwards()) {
      if (candidate === asking || candidate.table.length === 0) continue;
      if (candidate.paused) return candidate;
      if (!last && serviceOrder(asking, candidate) < 0) last = candidate;
    }
    return last;
  }

  private giveBlocks(sequence: Sequence, events: SequenceEvent[]): boolean {
    const { settledCount, table } = sequence;
    const matched = this.kv.match(table, sequence.settledTokens, sequence.outputFrom, sequence.kind);
    const found = sequence.kind === 'deterministic' ? this.wholeWindows(matched) : matched;
    this.kv.shrink(table, found);
    while (!this.fits(sequence)) {
      const paused = this.running.filter((other) => other.paused).at(-1);
      if (!paused) {
        this.kv.shrink(table, 0);
        return false;
      }
      this.preempt(paused, events);
    }
    const grown = this.grow(sequence, settledCount);
    assert(grown, 'blocks that were counted are not there');
    sequence.canonicalCount = sequence.kind === 'deterministic' ? found : 0;
    sequence.kvCount = found;
    sequence.noteCached(found);
    return true;
  }

  /** The most of `positionCount` positions, whole blocks, that are whole windows too: nobody writes a block that others read. */
  private wholeWindows(positionCount: number): number {
    let positions = positionCount;
    while (positions % this.windowTokens !== 0) positions -= this.kv.blockSize;
    return positions;
  }

  /** Room for its tokens and for one more block of every running sequence, so that admission does not cause preemption at once. */
  private fits(sequence: Sequence): boolean {
    const missing = this.kv.blocksFor(this.needed(sequence, sequence.settledCount)) - sequence.table.length;
    const others = this.running.length;
    return missing + others <= this.kv.availableCount || (others === 0 && missing <= this.kv.availableCount);
  }

  private needed(sequence: Sequence, positionCount: number): number {
    return sequence.kind === 'deterministic' ? alignUp(positionCount, this.windowTokens) : positionCount;
  }
}
