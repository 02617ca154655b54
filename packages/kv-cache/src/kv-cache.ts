import { assert } from './assert.js';
import { BlockPool } from './block-pool.js';
import { BlockTable } from './block-table.js';
import { LruList } from './lru-list.js';
import { type PrefixNode, PrefixTree, type Provenance } from './prefix-tree.js';

export interface KvCacheOptions {
  /** Blocks of the backend, block 0 included. */
  readonly blockCount: number;
  /** Positions in a block. */
  readonly blockSize: number;
  /** `off`: freed blocks keep nothing. */
  readonly prefixCache: 'on' | 'off';
}

/**
 * One sequence's blocks, and the nodes of the prefix tree that its full blocks stand for. Tables share blocks with those of
 * their own scope alone; those without one share with each other.
 */
export class KvTable extends BlockTable {
  constructor(readonly scope?: string) {
    super();
  }

  /** Node of block i, for the blocks that were found or published. */
  readonly nodes: PrefixNode[] = [];
}

export interface KvCacheStats {
  readonly free: number;
  readonly cached: number;
  readonly held: number;
  /** Usable blocks: free + cached + held. */
  readonly total: number;
  /** Lookups, those that found at least one block, and the blocks they found. */
  readonly lookups: number;
  readonly hits: number;
  readonly hitBlocks: number;
  readonly evictions: number;
}

/**
 * Who has which block, and whose contents are worth keeping: block pool, block tables and prefix cache in one. Pure
 * integers: it knows no device, and the contents are whatever the backend wrote.
 */
export class KvCache {
  readonly blockSize: number;
  private readonly pool: BlockPool;
  private tree = new PrefixTree();
  private readonly lru: LruList;
  private readonly owner: (PrefixNode | undefined)[];
  private readonly prefixCache: 'on' | 'off';
  private lookups = 0;
  private hits = 0;
  private hitBlocks = 0;
  private evictions = 0;

  constructor(options: KvCacheOptions) {
    this.blockSize = options.blockSize;
    this.pool = new BlockPool(options.blockCount);
    this.lru = new LruList(options.blockCount);
    this.owner = new Array<PrefixNode | undefined>(options.blockCount).fill(undefined);
    this.prefixCache = options.prefixCache;
  }

  /** Blocks that a table can grow by: free ones and cached ones. */
  get availableCount(): number {
    return this.pool.freeCount + this.pool.cachedCount;
  }

  /** Usable blocks of the pool. */
  get totalCount(): number {
    return this.pool.blockCount - 1;
  }

  blocksFor(positionCount: number): number {
    return Math.ceil(positionCount / this.blockSize);
  }

  /** Grows the table to hold `positionCount` positions, evicting cached blocks, or changes nothing and returns false. */
  grow(table: KvTable, positionCount: number): boolean {
    const missing = this.blocksFor(positionCount) - table.length;
    if (missing > this.availableCount) return false;
    for (let i = 0; i < missing; i++) table.push(this.allocate());
    return true;
  }

  /** Releases the table's blocks past `positionCount` positions, the last one first. */
  shrink(table: KvTable, positionCount: number): void {
    const keep = this.blocksFor(positionCount);
    while (table.length > keep) this.release(table.pop());
    if (table.nodes.length > keep) table.nodes.length = keep;
  }

  /**
   * Gives an empty table the longest run of cached blocks that spell the tokens' beginning, at most `limit` positions.
   * Returns the positions found, a multiple of blockSize.
   */
  match(table: KvTable, tokens: Int32Array, limit: number, use: 'deterministic' | 'ordinary'): number {
    assert(table.length === 0, 'match needs an empty table');
    if (this.prefixCache === 'off') return 0;
    this.lookups++;
    let parent = this.tree.rootOf(table.scope);
    const size = this.blockSize;
    for (let end = size; parent && end <= Math.min(limit, tokens.length); end += size) {
      const node = this.tree.find(parent, tokens.subarray(end - size, end));
      const block = node && (node.canonical || (use === 'ordinary' ? node.fast : 0));
      if (!block) break;
      if (this.pool.retain(block)) this.lru.remove(block);
      table.push(block);
      table.nodes.push(node);
      parent = node;
    }
    if (table.length > 0) this.hits++;
    this.hitBlocks += table.length;
    return table.length * size;
  }

  /** Makes the table's first `fullBlocks` blocks findable; what is published must never be written again. */
  publish(table: KvTable, tokens: Int32Array, fullBlocks: number, provenance: Provenance): void {
    if (this.prefixCache === 'off') return;
    assert(
      fullBlocks <= table.length && fullBlocks * this.blockSize <= tokens.length,
      'publish of blocks that are not full',
    );
    if (table.nodes.length > 0 && table.nodes.length < fullBlocks && !table.nodes.at(-1)!.attached)
      table.nodes.length = 0;
    for (let i = table.nodes.length; i < fullBlocks; i++) {
      const parent = i === 0 ? this.tree.addRoot(table.scope) : table.nodes[i - 1]!;
      const node = this.tree.findOrAdd(parent, tokens.subarray(i * this.blockSize, (i + 1) * this.blockSize));
      const block = table.at(i);
      if (node[provenance] === 0 && this.owner[block] === undefined) {
        node[provenance] = block;
        this.owner[block] = node;
      }
      table.nodes.push(node);
    }
  }

  /** What the blocks held is lost: those that were cached become free, and nothing is found any more. No table may hold a block. */
  clear(): void {
    assert(this.pool.heldCount === 0, `${this.pool.heldCount} blocks are held while their contents are lost`);
    for (let block = this.lru.oldest; block !== undefined; block = this.lru.oldest) {
      this.owner[block] = undefined;
      this.lru.remove(block);
      this.pool.evict(block);
    }
    this.tree = new PrefixTree();
  }

  stats(): KvCacheStats {
    return {
      free: this.pool.freeCount,
      cached: this.pool.cachedCount,
      held: this.pool.heldCount,
      total: this.totalCount,
      lookups: this.lookups,
      hits: this.hits,
      hitBlocks: this.hitBlocks,
      evictions: this.evictions,
    };
  }

  isFree(block: number): boolean {
    return this.pool.isFree(block);
  }

  /** Throws unless the pool's counts are right, no node owns a free block, and the tables given are what is held. */
  check(tables: Iterable<KvTable>): void {
    this.pool.check();
    const held = new Set<number>();
    for (const table of tables) for (const block of table.blocks) held.add(block);
    assert(held.size === this.pool.heldCount, `${held.size} blocks are in tables, ${this.pool.heldCount} are held`);
    for (let block = 1; block < this.pool.blockCount; block++) {
      const node = this.owner[block];
      if (node)
        assert(node.attached && (node.canonical === block || node.fast === block), `block ${block} has a stale node`);
      if (this.pool.isFree(block)) assert(!node && !held.has(block), `block ${block} is free and in use`);
    }
  }

  private allocate(): number {
    const block = this.pool.allocate();
    if (block !== undefined) return block;
    this.evictOldest();
    const evicted = this.pool.allocate();
    assert(evicted !== undefined, 'an evicted block is not free');
    return evicted;
  }

  private release(block: number): void {
    const then = this.owner[block] ? 'cached' : 'free';
    if (this.pool.release(block, then) && then === 'cached') this.lru.append(block);
  }

  private evictOldest(): void {
    const block = this.lru.oldest;
    assert(block !== undefined, 'nothing to evict');
    const node = this.owner[block]!;
    if (node.canonical === block) node.canonical = 0;
    else node.fast = 0;
    this.owner[block] = undefined;
    this.lru.remove(block);
    this.pool.evict(block);
    this.tree.prune(node);
    this.evictions++;
  }
}
