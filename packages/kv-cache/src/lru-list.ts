import { assert } from './assert.js';

/** Block ids from least to most recently used: a doubly linked list in two arrays, all operations constant time. */
export class LruList {
  private readonly next: Int32Array;
  private readonly previous: Int32Array;

  /** Id 0 is the list's own end on both sides. */
  constructor(blockCount: number) {
    this.next = new Int32Array(blockCount).fill(-1);
    this.previous = new Int32Array(blockCount).fill(-1);
    this.next[0] = 0;
    this.previous[0] = 0;
  }

  get oldest(): number | undefined {
    const block = this.next[0]!;
    return block === 0 ? undefined : block;
  }

  append(block: number): void {
    assert(block > 0 && this.next[block] === -1, `block ${block} is in the list already`);
    const last = this.previous[0]!;
    this.next[last] = block;
    this.previous[block] = last;
    this.next[block] = 0;
    this.previous[0] = block;
  }

  remove(block: number): void {
    assert(block > 0 && this.next[block] !== -1, `block ${block} is not in the list`);
    this.next[this.previous[block]!] = this.next[block]!;
    this.previous[this.next[block]!] = this.previous[block]!;
    this.next[block] = -1;
    this.previous[block] = -1;
  }
}
