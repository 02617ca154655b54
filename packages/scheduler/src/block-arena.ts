import { assert } from '@stet/backend';
import { BlockTable } from '@stet/kv-cache';

/** Where a table's entries stand, and what of the table they show. */
interface Region {
  offset: number;
  capacity: number;
  /** Entries copied, and the table's version then. */
  length: number;
  version: number;
}

const SMALLEST_REGION = 8;

/**
 * Block tables side by side in one array that lives from step to step, so that a step copies what is new of each table
 * and not the whole of it. Regions are handed out past the end and used again only by `compact`: what a step in flight
 * refers to stays as it is until then, also when its table grows, moves or is forgotten.
 */
export class BlockArena {
  private ids = new Int32Array(256);
  private end = 0;
  /** Entries of regions that are in use; the rest up to `end` is garbage. */
  private reserved = 0;
  /** In the order of their offsets: a region that moves to the end is added anew. */
  private readonly regions = new Map<BlockTable, Region>();
  private readonly zeros = new BlockTable();

  /** All regions, (end); valid until the next `place` or `compact`, offsets until the next `compact`. */
  get blocks(): Int32Array {
    return this.ids.subarray(0, this.end);
  }

  /** Tables that have a region. */
  get tableCount(): number {
    return this.regions.size;
  }

  /** Copies what the table has become since the last call, and returns where its entries begin. */
  place(table: BlockTable): number {
    const { length, version } = table;
    const old = this.regions.get(table);
    const region = old && old.capacity >= length ? old : this.allocate(table, length, old);
    // Each pop takes one entry off and pushes put on new ones: no entry before this one has changed.
    const unchanged = old ? Math.max(0, old.length - (version - old.version)) : 0;
    const from = region === old ? Math.min(unchanged, length) : 0;
    if (from < length) this.ids.set(table.blocks.subarray(from), region.offset + from);
    region.length = length;
    region.version = version;
    return region.offset;
  }

  /** Where `count` entries begin that are block 0. */
  placeZeros(count: number): number {
    while (this.zeros.length < count) this.zeros.push(0);
    return this.place(this.zeros);
  }

  /** The table has ended, or has lost its blocks: its region becomes garbage. */
  forget(table: BlockTable): void {
    const region = this.regions.get(table);
    if (!region) return;
    this.regions.delete(table);
    this.reserved -= region.capacity;
  }

  /** Closes the gaps if they are more than half of the array. Never while a step is in flight: regions move. */
  compact(): void {
    if (this.end - this.reserved <= this.end / 2) return;
    let end = 0;
    for (const region of this.regions.values()) {
      this.ids.copyWithin(end, region.offset, region.offset + region.length);
      region.offset = end;
      end += region.capacity;
    }
    assert(end === this.reserved, `regions of ${end} entries, ${this.reserved} are counted`);
    this.end = end;
  }

  /** A region past the end of all others, twice as large as the one it replaces. */
  private allocate(table: BlockTable, length: number, old: Region | undefined): Region {
    let capacity = old?.capacity ?? SMALLEST_REGION;
    while (capacity < length) capacity *= 2;
    this.forget(table);
    const region = { offset: this.end, capacity, length: 0, version: table.version };
    this.end += capacity;
    this.reserved += capacity;
    if (this.end > this.ids.length) {
      const grown = new Int32Array(Math.max(this.end, this.ids.length * 2));
      grown.set(this.ids);
      this.ids = grown;
    }
    this.regions.set(table, region);
    return region;
  }
}
