import { assert } from './assert.js';

const FREE = 0;
const HELD = 1;
const CACHED = 2;

/**
 * The blocks of a backend's K/V memory as integers 1 .. blockCount - 1; block 0 is never issued. A block is free, held
 * by one or more tables (counted), or cached: held by none, but its contents are kept for the prefix cache.
 * `free + cached + held = blockCount - 1` always.
 */
export class BlockPool {
  readonly blockCount: number;
  private readonly state: Uint8Array;
  private readonly references: Int32Array;
  private readonly freeStack: Int32Array;
  private free: number;
  private cached = 0;

  constructor(blockCount: number) {
    assert(Number.isInteger(blockCount) && blockCount >= 2, `blockCount is ${blockCount}, at least 2 are needed`);
    this.blockCount = blockCount;
    this.state = new Uint8Array(blockCount);
    this.references = new Int32Array(blockCount);
    this.freeStack = new Int32Array(blockCount - 1);
    this.free = blockCount - 1;
    for (let i = 0; i < this.free; i++) this.freeStack[i] = blockCount - 1 - i;
  }

  get freeCount(): number {
    return this.free;
  }

  get cachedCount(): number {
    return this.cached;
  }

  get heldCount(): number {
    return this.blockCount - 1 - this.free - this.cached;
  }

  isFree(block: number): boolean {
    return this.state[block] === FREE && block > 0;
  }

  /** A block held once, or undefined when none is free. */
  allocate(): number | undefined {
    if (this.free === 0) return undefined;
    const block = this.freeStack[--this.free]!;
    assert(
      block > 0 && this.state[block] === FREE && this.references[block] === 0,
      `block ${block} of the free list is in use`,
    );
    this.state[block] = HELD;
    this.references[block] = 1;
    return block;
  }

  /** One more table holds the block; true if it was cached until now. */
  retain(block: number): boolean {
    const was = this.state[block];
    assert(was === HELD || was === CACHED, `block ${block} is retained but free`);
    this.references[block]!++;
    if (was !== CACHED) return false;
    assert(this.references[block] === 1, `cached block ${block} was referenced`);
    this.state[block] = HELD;
    this.cached--;
    return true;
  }

  /** One table less holds the block; with the last one it becomes `then`. True if that happened. */
  release(block: number, then: 'free' | 'cached'): boolean {
    assert(this.state[block] === HELD && this.references[block]! > 0, `block ${block} is released but not held`);
    if (--this.references[block]! > 0) return false;
    if (then === 'cached') {
      this.state[block] = CACHED;
      this.cached++;
    } else {
      this.toFree(block);
    }
    return true;
  }

  /** A cached block becomes free. */
  evict(block: number): void {
    assert(this.state[block] === CACHED, `block ${block} is evicted but not cached`);
    this.cached--;
    this.toFree(block);
  }

  /** Throws unless every count agrees with the blocks' own states; linear, for tests and simulation. */
  check(): void {
    const counts = [0, 0, 0];
    for (let block = 1; block < this.blockCount; block++) {
      const state = this.state[block]!;
      counts[state]!++;
      assert(
        this.references[block]! > 0 === (state === HELD),
        `block ${block} has state ${state} and ${this.references[block]} references`,
      );
    }
    assert(this.state[0] === FREE && this.references[0] === 0, 'block 0 was issued');
    assert(counts[FREE] === this.free && counts[CACHED] === this.cached, 'the counts of the pool are wrong');
    const listed = new Set(this.freeStack.subarray(0, this.free));
    assert(listed.size === this.free && !listed.has(0), 'the free list has a block twice, or block 0');
  }

  private toFree(block: number): void {
    this.state[block] = FREE;
    this.freeStack[this.free++] = block;
  }
}
