import { checkStep, OUTPUT_LOGITS } from '@stet/backend';
import { describe, expect, it } from 'vitest';
import { joinBatches, rowsOf } from '../src/batches.js';

const tokens = Array.from({ length: 64 }, (_, i) => 100 + i);

describe('batches', () => {
  it('of one sequence have its rows, positions and all blocks up to the last row', () => {
    const batch = rowsOf(tokens, 30, 4, 5, 16);
    expect([...batch.tokens]).toEqual([130, 131, 132, 133]);
    expect([...batch.positions]).toEqual([30, 31, 32, 33]);
    expect([...batch.blocks]).toEqual([5, 6, 7]);
    expect([...batch.rowStarts]).toEqual([0, 4]);
    expect([...batch.blockStarts]).toEqual([0]);
    expect([...batch.outputRows]).toEqual([0, 1, 2, 3]);
    expect([...batch.outputKinds]).toEqual(new Array(4).fill(OUTPUT_LOGITS));
  });

  it('join side by side: starts and output rows move by what stands before', () => {
    const lastAlone = { ...rowsOf(tokens, 0, 3, 1, 16), outputRows: Int32Array.of(2), outputKinds: Uint8Array.of(0) };
    const joined = joinBatches([lastAlone, rowsOf(tokens, 16, 2, 2, 16), rowsOf(tokens, 40, 1, 4, 16)]);
    expect([...joined.tokens]).toEqual([100, 101, 102, 116, 117, 140]);
    expect([...joined.positions]).toEqual([0, 1, 2, 16, 17, 40]);
    expect([...joined.rowStarts]).toEqual([0, 3, 5, 6]);
    expect([...joined.blockStarts]).toEqual([0, 1, 3]);
    expect([...joined.blocks]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...joined.outputRows]).toEqual([2, 3, 4, 5]);
    expect([...joined.outputKinds]).toEqual([0, OUTPUT_LOGITS, OUTPUT_LOGITS, OUTPUT_LOGITS]);
  });

  it('pass the check that backends make', () => {
    const limits = { vocabSize: 4096, contextLength: 64, blockSize: 16, blockCount: 32, maxRows: 64 };
    const batches = Array.from({ length: 5 }, (_, s) => rowsOf(tokens, 8 * s, 8, 1 + 4 * s, 16));
    expect(() => checkStep({ fast: joinBatches(batches) }, limits)).not.toThrow();
    expect(() => checkStep({ fast: joinBatches([...batches, batches[0]!]) }, limits)).toThrow(/written twice/);
  });
});
