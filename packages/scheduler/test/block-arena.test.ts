import { fc, it as property } from '@fast-check/vitest';
import { BlockTable } from '@stet/kv-cache';
import { describe, expect, it } from 'vitest';
import { BlockArena } from '../src/block-arena.js';

function tableOf(...blocks: number[]): BlockTable {
  const table = new BlockTable();
  for (const block of blocks) table.push(block);
  return table;
}

const range = (length: number, from: number) => Array.from({ length }, (_, i) => from + i);
const shown = (arena: BlockArena, start: number, length: number) => [...arena.blocks.subarray(start, start + length)];

describe('block arena', () => {
  it('keeps a table where it is while it grows within its region', () => {
    const arena = new BlockArena();
    arena.place(tableOf(9));
    const table = tableOf(1, 2);
    const start = arena.place(table);
    const { buffer } = arena.blocks;
    for (const block of [3, 4, 5]) table.push(block);
    expect(arena.place(table)).toBe(start);
    expect(shown(arena, start, 5)).toEqual([1, 2, 3, 4, 5]);
    expect(arena.blocks.buffer).toBe(buffer);
  });

  it('copies what is new, and nothing before it', () => {
    const arena = new BlockArena();
    const table = tableOf(1, 2, 3, 4);
    const start = arena.place(table);
    arena.blocks.fill(-1);
    table.push(5);
    arena.place(table);
    expect(shown(arena, start, 5)).toEqual([-1, -1, -1, -1, 5]);
    table.pop();
    table.pop();
    table.push(6);
    arena.place(table);
    expect(shown(arena, start, 4)).toEqual([-1, -1, -1, 6]);
    arena.place(table);
    expect(shown(arena, start, 4)).toEqual([-1, -1, -1, 6]);
  });

  it('shows a table that was emptied and filled anew between two calls', () => {
    const arena = new BlockArena();
    const table = tableOf(1, 2, 3);
    arena.place(table);
    while (table.length > 0) table.pop();
    for (const block of [7, 8, 9, 10]) table.push(block);
    expect(shown(arena, arena.place(table), 4)).toEqual([7, 8, 9, 10]);
  });

  it('leaves the entries of a table that moves, ends or loses blocks where they were until it is compacted', () => {
    const arena = new BlockArena();
    const grows = tableOf(1, 2, 3);
    const ends = tableOf(4, 5, 6);
    const starts = [arena.place(grows), arena.place(ends)];
    for (const block of range(20, 50)) grows.push(block);
    ends.pop();
    arena.forget(ends);
    expect(arena.place(grows)).not.toBe(starts[0]);
    arena.place(tableOf(7, 8, 9));
    expect(starts.map((start) => shown(arena, start!, 3))).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
  });

  it('closes gaps only when they are more than half, and keeps every table that is left', () => {
    const arena = new BlockArena();
    const tables = range(10, 0).map((i) => tableOf(...range(100, 1000 * i)));
    for (const table of tables) arena.place(table);
    const full = arena.blocks.length;
    for (const table of tables.slice(0, 5)) arena.forget(table);
    arena.compact();
    expect(arena.blocks.length).toBe(full);
    arena.forget(tables[7]!);
    arena.compact();
    expect(arena.blocks.length).toBe(full * 0.4);
    expect(arena.tableCount).toBe(4);
    for (const i of [5, 6, 8, 9]) {
      expect(shown(arena, arena.place(tables[i]!), 100)).toEqual(range(100, 1000 * i));
    }
    expect(arena.blocks.length).toBe(full * 0.4);
  });

  it('shows the whole of a table that moved, and closes the gaps that moves left', () => {
    const arena = new BlockArena();
    const table = tableOf(1, 2, 3);
    arena.place(table);
    for (const block of range(97, 4)) {
      table.push(block);
      arena.place(table);
    }
    expect(shown(arena, arena.place(table), 100)).toEqual(range(100, 1));
    expect(arena.blocks.length).toBe(8 + 16 + 32 + 64 + 128);
    const other = tableOf(...range(300, 500));
    for (let i = 0; i < 2; i++) arena.place(other);
    for (const block of range(300, 800)) other.push(block);
    arena.place(other);
    arena.forget(other);
    arena.compact();
    expect(arena.blocks.length).toBe(128);
    expect(shown(arena, arena.place(table), 100)).toEqual(range(100, 1));
  });

  it('does not grow with the number of tables that came and went', () => {
    const arena = new BlockArena();
    for (let i = 0; i < 1000; i++) {
      arena.compact();
      const table = tableOf(...range(50, i));
      arena.place(table);
      arena.forget(table);
      arena.forget(table);
    }
    expect(arena.tableCount).toBe(0);
    expect(arena.blocks.length).toBeLessThan(4 * 64);
  });

  it('has block 0 as often as asked for, beside other tables', () => {
    const arena = new BlockArena();
    expect(shown(arena, arena.placeZeros(2), 2)).toEqual([0, 0]);
    const start = arena.place(tableOf(5, 6));
    expect(arena.placeZeros(1)).toBe(arena.placeZeros(2));
    expect(shown(arena, arena.placeZeros(40), 40)).toEqual(new Array(40).fill(0));
    expect(shown(arena, start, 2)).toEqual([5, 6]);
    expect(arena.tableCount).toBe(2);
  });

  const operation = fc.record({
    kind: fc.constantFrom('grow', 'grow', 'pop', 'place', 'place', 'forget', 'compact', 'zeros'),
    which: fc.nat(4),
    count: fc.integer({ min: 1, max: 40 }),
  });

  property.prop([fc.array(operation, { maxLength: 120, size: 'max' })])(
    'shows the contents of every table placed since it was compacted, in any order of calls',
    (operations) => {
      const arena = new BlockArena();
      const tables = range(5, 0).map(() => new BlockTable());
      let placed: { start: number; blocks: number[] }[] = [];
      let nextBlock = 1;
      for (const { kind, which, count } of operations) {
        const table = tables[which]!;
        if (kind === 'grow') for (let i = 0; i < count; i++) table.push(nextBlock++);
        if (kind === 'pop') for (let i = 0; i < count && table.length > 0; i++) table.pop();
        if (kind === 'forget') arena.forget(table);
        if (kind === 'compact') {
          arena.compact();
          // The next step's places begin here: those of the last one are over.
          placed = [];
        }
        if (kind === 'zeros') placed.push({ start: arena.placeZeros(count), blocks: new Array(count).fill(0) });
        if (kind !== 'place') continue;
        const start = arena.place(table);
        // A table does not lose entries between two places of one step.
        placed = placed.filter((one) => one.start !== start);
        placed.push({ start, blocks: [...table.blocks] });
        for (const one of placed) expect(shown(arena, one.start, one.blocks.length)).toEqual(one.blocks);
      }
      for (const table of tables) expect(shown(arena, arena.place(table), table.length)).toEqual([...table.blocks]);
    },
  );
});
