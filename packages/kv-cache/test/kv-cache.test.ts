import { fc, it as property } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { BlockPool, KvCache, KvTable } from '../src/index.js';

const cacheOf = (blockCount = 17, prefixCache: 'on' | 'off' = 'on') =>
  new KvCache({ blockCount, blockSize: 4, prefixCache });
const tokens = (length: number, from = 0) => Int32Array.from({ length }, (_, i) => from + i);

/** A table that was filled and published, as a finished sequence leaves it. */
function publish(kv: KvCache, text: Int32Array, provenance: 'canonical' | 'fast', scope?: string): KvTable {
  const table = new KvTable(scope);
  expect(kv.grow(table, text.length)).toBe(true);
  kv.publish(table, text, Math.floor(text.length / 4), provenance);
  return table;
}

describe('block pool', () => {
  it('issues every block but 0 once, and then none', () => {
    const pool = new BlockPool(5);
    const issued = [1, 2, 3, 4].map(() => pool.allocate());
    expect([...issued].sort()).toEqual([1, 2, 3, 4]);
    expect(pool.allocate()).toBeUndefined();
    pool.check();
  });

  it('refuses to release a block that is not held', () => {
    const pool = new BlockPool(3);
    const block = pool.allocate()!;
    pool.release(block, 'free');
    expect(() => pool.release(block, 'free')).toThrow('not held');
    expect(() => pool.release(0, 'free')).toThrow('not held');
    expect(() => pool.retain(block)).toThrow('free');
    expect(() => pool.evict(block)).toThrow('not cached');
  });

  it('keeps a block held until its last holder lets go', () => {
    const pool = new BlockPool(3);
    const block = pool.allocate()!;
    pool.retain(block);
    expect(pool.release(block, 'cached')).toBe(false);
    expect(pool.release(block, 'cached')).toBe(true);
    expect([pool.freeCount, pool.cachedCount, pool.heldCount]).toEqual([1, 1, 0]);
  });
});

describe('prefix cache', () => {
  it('that is cleared finds nothing, and all blocks are free', () => {
    const kv = cacheOf();
    for (const from of [0, 50]) kv.shrink(publish(kv, tokens(12, from), 'canonical'), 0);
    expect(kv.stats()).toMatchObject({ cached: 6, held: 0 });
    kv.clear();
    expect(kv.stats()).toMatchObject({ free: 16, cached: 0, held: 0, evictions: 0 });
    kv.check([]);
    const table = new KvTable();
    expect(kv.match(table, tokens(12), 11, 'deterministic')).toBe(0);
    kv.shrink(publish(kv, tokens(12), 'canonical'), 0);
    expect(kv.match(table, tokens(12), 11, 'deterministic')).toBe(8);
    kv.check([table]);
  });

  it('lends nothing from one scope to another, and forgets a scope with its last block', () => {
    const kv = cacheOf();
    const found = (scope?: string) => {
      const table = new KvTable(scope);
      const positions = kv.match(table, tokens(12), 12, 'ordinary');
      kv.shrink(table, 0);
      return positions;
    };
    const mine = publish(kv, tokens(8), 'canonical', 'mine');
    kv.shrink(mine, 0);
    expect([found('mine'), found('yours'), found(''), found()]).toEqual([8, 0, 0, 0]);
    kv.shrink(publish(kv, tokens(12), 'canonical'), 0);
    expect([found('mine'), found('yours'), found()]).toEqual([8, 0, 12]);
    const all = new KvTable('yours');
    expect(kv.grow(all, 16 * 4)).toBe(true);
    kv.shrink(all, 0);
    expect([found('mine'), found()]).toEqual([0, 0]);
    kv.check([]);
  });

  it('is not cleared while a table holds blocks', () => {
    const kv = cacheOf();
    publish(kv, tokens(8), 'fast');
    expect(() => kv.clear()).toThrow('2 blocks are held');
  });

  it('finds the longest run of full blocks, up to the limit', () => {
    const kv = cacheOf();
    const table = publish(kv, tokens(10), 'canonical');
    kv.shrink(table, 0);
    const found = new KvTable();
    expect(kv.match(found, tokens(10), 9, 'deterministic')).toBe(8);
    kv.shrink(found, 0);
    expect(kv.match(found, tokens(10), 7, 'deterministic')).toBe(4);
    expect(kv.stats()).toMatchObject({ lookups: 2, hits: 2, hitBlocks: 3 });
    kv.check([found]);
  });

  it('lends fast blocks to ordinary sequences alone', () => {
    const kv = cacheOf();
    kv.shrink(publish(kv, tokens(8), 'fast'), 0);
    const table = new KvTable();
    expect(kv.match(table, tokens(8), 8, 'deterministic')).toBe(0);
    expect(kv.match(table, tokens(8), 8, 'ordinary')).toBe(8);
  });

  it('prefers canonical blocks, and both kinds of one prefix live side by side', () => {
    const kv = cacheOf();
    const fast = publish(kv, tokens(8), 'fast');
    const canonical = publish(kv, tokens(8), 'canonical');
    const table = new KvTable();
    expect(kv.match(table, tokens(8), 8, 'ordinary')).toBe(8);
    expect([...table.blocks]).toEqual([...canonical.blocks]);
    kv.check([fast, canonical, table]);
  });

  it('compares tokens, not only hashes, and the whole prefix', () => {
    const kv = cacheOf();
    kv.shrink(publish(kv, tokens(8), 'canonical'), 0);
    const table = new KvTable();
    expect(kv.match(table, Int32Array.of(9, 9, 9, 9, 4, 5, 6, 7), 8, 'deterministic')).toBe(0);
    expect(kv.match(table, Int32Array.of(0, 1, 2, 9, 4, 5, 6, 7), 8, 'deterministic')).toBe(0);
  });

  it('evicts the least recently used tail first', () => {
    const kv = cacheOf(5);
    kv.shrink(publish(kv, tokens(8), 'canonical'), 0);
    kv.shrink(publish(kv, tokens(8, 100), 'canonical'), 0);
    const big = new KvTable();
    expect(kv.grow(big, 4)).toBe(true);
    const table = new KvTable();
    expect(kv.match(table, tokens(8), 8, 'deterministic')).toBe(4);
    kv.shrink(table, 0);
    expect(kv.match(table, tokens(8, 100), 8, 'deterministic')).toBe(8);
    expect(kv.stats().evictions).toBe(1);
    kv.check([big, table]);
  });

  it('does not touch a table when blocks are short', () => {
    const kv = cacheOf(3);
    const table = new KvTable();
    expect(kv.grow(table, 12)).toBe(false);
    expect(table.length).toBe(0);
    expect(kv.stats().free).toBe(2);
  });

  it('publishes again from the beginning when its earlier nodes were evicted', () => {
    const kv = cacheOf(9);
    const first = publish(kv, tokens(4), 'canonical');
    const twin = new KvTable();
    kv.grow(twin, 8);
    kv.publish(twin, tokens(4), 1, 'canonical');
    kv.shrink(first, 0);
    const filler = new KvTable();
    expect(kv.grow(filler, kv.availableCount * 4)).toBe(true);
    kv.publish(twin, tokens(8), 2, 'canonical');
    kv.shrink(filler, 0);
    kv.shrink(twin, 0);
    expect(kv.match(new KvTable(), tokens(8), 8, 'deterministic')).toBe(8);
  });

  it('keeps nothing when it is off', () => {
    const kv = cacheOf(9, 'off');
    kv.shrink(publish(kv, tokens(8), 'canonical'), 0);
    expect(kv.match(new KvTable(), tokens(8), 8, 'deterministic')).toBe(0);
    expect(kv.stats()).toMatchObject({ cached: 0, free: 8 });
  });

  property.prop(
    { actions: fc.array(fc.record({ kind: fc.nat(5), which: fc.nat(5), amount: fc.nat(30) }), { maxLength: 120 }) },
    { numRuns: 200 },
  )('keeps its invariants and lends only what was published, whatever happens', ({ actions }) => {
    const kv = cacheOf(13);
    const texts = [tokens(28), tokens(28, 1), Int32Array.from({ length: 28 }, (_, i) => (i < 8 ? i : 200 + i))];
    const slots = Array.from({ length: 6 }, () => ({
      table: new KvTable(),
      text: texts[0]!,
      kind: 'deterministic' as 'deterministic' | 'ordinary',
    }));
    const origin = new Map<number, string>();
    for (const { kind, which, amount } of actions) {
      const slot = slots[which]!;
      if (kind === 0 && slot.table.length === 0) {
        slot.text = texts[amount % 3]!;
        slot.kind = amount % 2 ? 'ordinary' : 'deterministic';
        const found = kv.match(slot.table, slot.text, amount, slot.kind);
        for (let i = 0; i < found / 4; i++) {
          const written = origin.get(slot.table.at(i))!;
          expect(written.endsWith(slot.text.slice(0, 4 * i + 4).join())).toBe(true);
          if (slot.kind === 'deterministic') expect(written.startsWith('canonical')).toBe(true);
        }
      } else if (kind === 1) {
        const before = slot.table.length;
        if (kv.grow(slot.table, Math.min(amount, 28)))
          for (let i = before; i < slot.table.length; i++) origin.set(slot.table.at(i), 'unwritten');
      } else if (kind === 2) {
        const provenance = slot.kind === 'deterministic' ? 'canonical' : 'fast';
        for (let i = 0; i < slot.table.length; i++) {
          if (origin.get(slot.table.at(i)) === 'unwritten')
            origin.set(slot.table.at(i), `${provenance} ${slot.text.slice(0, 4 * i + 4).join()}`);
        }
        kv.publish(slot.table, slot.text, Math.min(slot.table.length, 7), provenance);
      } else if (kind === 3) {
        kv.shrink(slot.table, Math.max(amount, slot.table.nodes.length * 4));
      } else if (kind === 4) {
        kv.shrink(slot.table, 0);
      } else if (amount === 0) {
        for (const { table } of slots) kv.shrink(table, 0);
        kv.clear();
        origin.clear();
      }
      kv.check(slots.map(({ table }) => table));
    }
  });
});
