import { describe, expect, it } from 'vitest';
import {
  type Batch,
  checkStep,
  createStepChecker,
  isStetError,
  OUTPUT_ARGMAX,
  OUTPUT_LOGITS,
  type Step,
} from '../src/index.js';

const limits = { vocabSize: 50, contextLength: 40, blockSize: 16, blockCount: 12, maxRows: 8 };

interface Columns {
  tokens: number[];
  positions: number[];
  rowStarts: number[];
  blockStarts: number[];
  blocks: number[];
  outputRows: number[];
  outputKinds: number[];
}

/** Two sequences: rows 0..2 at positions 15..17 over blocks 1, 2; row 3 at position 0 of block 5. */
const good: Columns = {
  tokens: [1, 2, 3, 49],
  positions: [15, 16, 17, 0],
  rowStarts: [0, 3, 4],
  blockStarts: [0, 2],
  blocks: [1, 2, 5],
  outputRows: [0, 3],
  outputKinds: [OUTPUT_ARGMAX, OUTPUT_LOGITS],
};

function batch(change: Partial<Columns> = {}): Batch {
  const columns = { ...good, ...change };
  return {
    tokens: Int32Array.from(columns.tokens),
    positions: Int32Array.from(columns.positions),
    rowStarts: Int32Array.from(columns.rowStarts),
    blockStarts: Int32Array.from(columns.blockStarts),
    blocks: Int32Array.from(columns.blocks),
    outputRows: Int32Array.from(columns.outputRows),
    outputKinds: Uint8Array.from(columns.outputKinds),
  };
}

/** One decode row at a position over a block table. */
function decode(position: number, blocks: number[]): Batch {
  return batch({
    tokens: [1],
    positions: [position],
    rowStarts: [0, 1],
    blockStarts: [0],
    blocks,
    outputRows: [0],
    outputKinds: [OUTPUT_ARGMAX],
  });
}

/** Decode rows at position 17, one for each block table. */
function decodes(...tables: number[][]): Batch {
  const starts = [0];
  for (const table of tables) starts.push(starts.at(-1)! + table.length);
  return batch({
    tokens: tables.map(() => 1),
    positions: tables.map(() => 17),
    rowStarts: [...tables.keys(), tables.length],
    blockStarts: starts.slice(0, -1),
    blocks: tables.flat(),
    outputRows: [],
    outputKinds: [],
  });
}

const refused: [string, Step, RegExp][] = [
  ['a step without batches', {}, /no batch/],
  ['no rows', { fast: batch({ tokens: [], positions: [] }) }, /0 rows/],
  ['more rows than maxRows', { canonical: batch({ tokens: new Array(9).fill(1) }) }, /9 rows/],
  ['another number of positions', { fast: batch({ positions: [15, 16, 17] }) }, /3 positions for 4/],
  ['no sequences', { fast: batch({ rowStarts: [0], blockStarts: [] }) }, /rowStarts has 1 entries/],
  ['empty rowStarts', { fast: batch({ rowStarts: [], blockStarts: [] }) }, /rowStarts has 0 entries/],
  [
    'another number of tables',
    { fast: batch({ blockStarts: [0, 2, 3] }) },
    /rowStarts has 3 entries and blockStarts 3/,
  ],
  ['rows before the first sequence', { fast: batch({ rowStarts: [1, 3, 4] }) }, /does not span the rows/],
  ['rows after the last sequence', { fast: batch({ rowStarts: [0, 2, 3] }) }, /does not span the rows/],
  ['a table before the blocks', { fast: batch({ blockStarts: [-1, 2] }) }, /sequence 0, entries -1 to 0, leaves the 3/],
  ['a table past the blocks', { fast: batch({ blockStarts: [0, 3] }) }, /sequence 1, entries 3 to 3, leaves the 3/],
  ['a start that overflows', { fast: batch({ blockStarts: [2 ** 31 - 1, 2] }) }, /sequence 0, entries 2147483647/],
  ['two tables that share a block they write', { fast: batch({ blockStarts: [0, 1] }) }, /block 2 of .* written twice/],
  ['a negative token', { fast: batch({ tokens: [1, -1, 3, 4] }) }, /row 1: token -1/],
  ['a token past the vocabulary', { canonical: batch({ tokens: [1, 2, 3, 50] }) }, /row 3: token 50/],
  ['block 0', { fast: batch({ blocks: [1, 0, 5] }) }, /block 0 at index 1/],
  ['a negative block', { fast: batch({ blocks: [1, 2, -5] }) }, /block -5/],
  ['a block past the pool', { fast: batch({ blocks: [12, 2, 5] }) }, /block 12/],
  [
    'a sequence without rows',
    { fast: batch({ positions: [15, 16, 17, 18], rowStarts: [0, 4, 4] }) },
    /sequence 1 has no rows/,
  ],
  ['rowStarts that go back', { fast: batch({ rowStarts: [0, 5, 4] }) }, /consecutive/],
  ['a negative position', { fast: batch({ positions: [15, 16, 17, -1] }) }, /row 3: position -1/],
  ['a gap in positions', { fast: batch({ positions: [15, 17, 18, 0] }) }, /row 1: positions .* consecutive/],
  ['a position twice', { fast: batch({ positions: [15, 16, 16, 0] }) }, /row 2: positions .* consecutive/],
  ['a position past the context', { fast: decode(40, [1, 2, 3]) }, /position 40 is past the context of 40/],
  ['a table that is too short', { fast: decode(16, [1]) }, /sequence 0, entries 0 to 1, leaves the 1 blocks/],
  ['outputs without kinds', { fast: batch({ outputKinds: [0] }) }, /1 outputKinds for 2/],
  ['an output row that does not exist', { fast: batch({ outputRows: [0, 4] }) }, /output row 4/],
  ['a negative output row', { fast: batch({ outputRows: [-1, 3] }) }, /output row -1/],
  ['output rows out of order', { fast: batch({ outputRows: [3, 0] }) }, /output row 0 is not after/],
  ['an output row twice', { fast: batch({ outputRows: [3, 3] }) }, /output row 3 is not after/],
  ['an unknown kind of output', { fast: batch({ outputKinds: [0, 2] }) }, /output kind 2/],
  ['two sequences that write one block', { fast: decodes([1, 2], [3, 2]) }, /block 2 of sequence 1 is written twice/],
  [
    'one sequence that writes a block twice',
    { fast: batch({ blocks: [2, 2, 5] }) },
    /block 2 of sequence 0 is written/,
  ],
  ['a table that reads the block it writes', { fast: decodes([2, 2]) }, /sequence 0 reads block 2/],
  ['a sequence that reads what another writes', { fast: decodes([1, 2], [2, 3]) }, /sequence 1 reads block 2/],
  ['a sequence that reads what a later one writes', { fast: decodes([2, 1], [3, 2]) }, /sequence 0 reads block 2/],
  ['two batches that write one block', { fast: decodes([1, 2]), canonical: decodes([3, 2]) }, /canonical: block 2/],
  [
    'canonical reading what fast writes',
    { fast: decodes([1, 2]), canonical: decodes([2, 3]) },
    /canonical: sequence 0 reads/,
  ],
  [
    'fast reading what canonical writes',
    { fast: decodes([2, 3]), canonical: decodes([1, 2]) },
    /fast: sequence 0 reads/,
  ],
];

describe('checkStep', () => {
  it.each<[string, Step]>([
    ['a batch of either schedule', { fast: batch() }],
    ['both batches over different blocks', { fast: batch(), canonical: decodes([7, 8], [7, 9]) }],
    ['blocks that both batches only read', { fast: decodes([1, 2], [1, 3]), canonical: decodes([1, 4]) }],
    ['no outputs', { canonical: batch({ outputRows: [], outputKinds: [] }) }],
    ['the last position of the context', { fast: decode(39, [1, 2, 3]) }],
    ['the last block of the pool', { fast: decode(0, [11]) }],
    ['exactly maxRows rows', { fast: decodes(...[1, 2, 3, 4, 5, 6, 7, 8].map((block) => [11, block])) }],
    [
      'entries past the end of a table, whoever writes them',
      { fast: batch({ blockStarts: [0, 3], blocks: [1, 2, 5, 5] }) },
    ],
    [
      'tables in another order, with impossible ids between them',
      { fast: batch({ blockStarts: [4, 1], blocks: [-1, 5, 99, 0, 1, 2, -7] }) },
    ],
    ['a table where another one ends', { fast: batch({ blockStarts: [0, 2], blocks: [1, 2, 5] }) }],
  ])('accepts %s', (_, step) => {
    expect(() => checkStep(step, limits)).not.toThrow();
  });

  it.each(refused)('refuses %s', (_, step, message) => {
    let error: unknown;
    try {
      checkStep(step, limits);
    } catch (caught) {
      error = caught;
    }
    expect(isStetError(error) && error.code).toBe('STET_ERR_BAD_BATCH');
    expect((error as Error).message).toMatch(message);
  });
});

describe('createStepChecker', () => {
  it('forgets one step before it checks the next, also after a refusal', () => {
    const check = createStepChecker(limits);
    for (let round = 0; round < 3; round++) {
      expect(() => check({ fast: decodes([1, 2]), canonical: decodes([3, 4]) })).not.toThrow();
      expect(() => check({ fast: decodes([1, 2]), canonical: decodes([3, 2]) })).toThrow(/written twice/);
      expect(() => check({ fast: decodes([2, 1]), canonical: decodes([2, 3]) })).not.toThrow();
    }
  });

  it('checks 512 sequences with tables of 2048 blocks within milliseconds', () => {
    const sequences = 512;
    const blocksEach = 2048;
    const big = {
      vocabSize: 50,
      contextLength: 32768,
      blockSize: 16,
      blockCount: 1 + sequences * blocksEach,
      maxRows: 512,
    };
    const step: Step = {
      fast: {
        tokens: new Int32Array(sequences),
        positions: new Int32Array(sequences).fill(32767),
        rowStarts: Int32Array.from({ length: sequences + 1 }, (_, s) => s),
        blockStarts: Int32Array.from({ length: sequences }, (_, s) => s * blocksEach),
        blocks: Int32Array.from({ length: sequences * blocksEach }, (_, i) => i + 1),
        outputRows: new Int32Array(0),
        outputKinds: new Uint8Array(0),
      },
    };
    const check = createStepChecker(big);
    const times = Array.from({ length: 5 }, () => {
      const start = performance.now();
      check(step);
      return performance.now() - start;
    });
    // A hash set of a million ids takes a hundred milliseconds; a linear scan takes a few.
    expect(Math.min(...times)).toBeLessThan(40);
  });
});
