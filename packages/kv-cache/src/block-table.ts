import { assert } from './assert.js';

/** The blocks of one sequence, in order of position. */
export class BlockTable {
  private ids = new Int32Array(8);
  private count = 0;
  private pops = 0;

  get length(): number {
    return this.count;
  }

  /** Number of pops so far: of n entries seen at version v, the first n - (version - v) are still the same. */
  get version(): number {
    return this.pops;
  }

  /** The ids, (length); valid until the table changes. */
  get blocks(): Int32Array {
    return this.ids.subarray(0, this.count);
  }

  at(index: number): number {
    assert(index >= 0 && index < this.count, `block ${index} of a table of ${this.count}`);
    return this.ids[index]!;
  }

  push(block: number): void {
    if (this.count === this.ids.length) {
      const grown = new Int32Array(this.count * 2);
      grown.set(this.ids);
      this.ids = grown;
    }
    this.ids[this.count++] = block;
  }

  pop(): number {
    assert(this.count > 0, 'pop of an empty block table');
    this.pops++;
    return this.ids[--this.count]!;
  }
}
