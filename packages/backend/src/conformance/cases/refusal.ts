import type { Batch, Step } from '../../batch.js';
import { isStetError, type StetErrorCode } from '../../errors.js';
import type { Backend } from '../../port.js';
import type { ConformanceCase } from '../case.js';
import { batchOf, expectEqualAnswers, feed, type Rows } from '../drive.js';
import { expectEqual, fail } from '../equal-bits.js';

/** Rejections must be `StetError`s with this code. */
export async function expectRejects(promise: Promise<unknown>, code: StetErrorCode, where: string): Promise<void> {
  let error: unknown;
  try {
    await promise;
  } catch (caught) {
    error = caught;
  }
  if (error === undefined) fail(`${where}: was accepted, expected ${code}`);
  if (!isStetError(error)) fail(`${where}: rejected with ${String(error)}, expected a StetError with ${code}`);
  expectEqual(error.code, code, `${where}: code of "${error.message}"`);
}

export const refusalCases: ConformanceCase[] = (['canonical', 'fast'] as const).map((schedule) => ({
  group: 'refusal',
  name: `a ${schedule} batch that breaks a rule is refused and writes nothing`,
  scope: 'once',
  async run({ load, sequences, solo, model }) {
    const backend = await load();
    const { vocabSize } = model.plan;
    const sequence = { tokens: sequences[0]!, blocks: [5, 3, 8, 1, 2] };
    await feed(backend, 'canonical', sequence, { end: 50, want: 'none' });
    // Its first sequence alone would overwrite positions 10..29 with other tokens.
    const overwriting: Rows = {
      tokens: sequences[0]!.slice(10, 30).map((token) => (token + 1) % vocabSize),
      position: 10,
      blocks: sequence.blocks,
    };
    const good = batchOf([overwriting, { tokens: sequences[3]!, position: 0, blocks: [11, 12] }]);
    for (const [name, broken] of brokenBatches(good, backend)) {
      await expectRejects(backend.forward({ [schedule]: broken }), 'STET_ERR_BAD_BATCH', name);
    }
    for (const [name, step] of brokenSteps(good, sequence.blocks)) {
      await expectRejects(backend.forward(step), 'STET_ERR_BAD_BATCH', name);
    }
    const answers = await feed(backend, 'canonical', sequence, { first: 50, chunk: () => 5 });
    expectEqualAnswers(answers, await solo(0), 'what follows the refused batches');
  },
}));

/** The batch with one rule broken each time; 37 rows, 2 sequences, tables of 5 and 2 blocks. */
function brokenBatches(good: Batch, { info }: Backend): [string, Batch][] {
  const ints = (column: Int32Array, changes: Record<number, number>): Int32Array => {
    const copy = column.slice();
    for (const [index, value] of Object.entries(changes)) copy[Number(index)] = value;
    return copy;
  };
  const { tokens, positions, rowStarts, blockStarts, blocks, outputRows, outputKinds } = good;
  const last = tokens.length - 1;
  const context = info.contextLength;
  return [
    ['a negative token', { ...good, tokens: ints(tokens, { [last]: -1 }) }],
    ['a token past the vocabulary', { ...good, tokens: ints(tokens, { [last]: info.vocabSize }) }],
    ['positions of another length', { ...good, positions: positions.slice(1) }],
    ['a position that is not the next', { ...good, positions: ints(positions, { [last]: 99 }) }],
    ['a negative position', { ...good, positions: positions.map((p, row) => (row < 20 ? p : p - 1)) }],
    ['a position past the context', { ...good, positions: positions.map((p, row) => (row < 20 ? p : p + context)) }],
    ['a block table that is too short', { ...good, positions: positions.map((p, row) => (row < 20 ? p : p + 16)) }],
    ['block 0', { ...good, blocks: ints(blocks, { 6: 0 }) }],
    ['a negative block', { ...good, blocks: ints(blocks, { 6: -1 }) }],
    ['a block past the pool', { ...good, blocks: ints(blocks, { 6: info.blockCount }) }],
    ['two sequences that write one block', { ...good, blocks: ints(blocks, { 6: blocks[1]! }) }],
    ['a sequence that reads what another writes', { ...good, blocks: ints(blocks, { 0: blocks[6]! }) }],
    ['rows that no sequence has', { ...good, rowStarts: ints(rowStarts, { 2: last }) }],
    ['a sequence without rows', { ...good, rowStarts: ints(rowStarts, { 1: 0 }) }],
    ['rowStarts of another length', { ...good, rowStarts: Int32Array.of(0, last + 1) }],
    ['blockStarts of another length', { ...good, blockStarts: Int32Array.of(...blockStarts, blocks.length) }],
    ['a block table that begins before the blocks', { ...good, blockStarts: ints(blockStarts, { 1: -1 }) }],
    ['a block table that ends past the blocks', { ...good, blockStarts: ints(blockStarts, { 1: blocks.length }) }],
    ['output rows out of order', { ...good, outputRows: ints(outputRows, { 3: 1 }) }],
    ['an output row that does not exist', { ...good, outputRows: ints(outputRows, { [last]: last + 1 }) }],
    ['outputKinds of another length', { ...good, outputKinds: outputKinds.slice(1) }],
    ['an unknown output kind', { ...good, outputKinds: outputKinds.map((kind, i) => (i === last ? 7 : kind)) }],
    ['no rows', batchOf([])],
    ['more rows than maxRows', batchOf([{ tokens: new Array(info.maxRows + 1).fill(1), position: 0, blocks: [] }])],
  ];
}

function brokenSteps(good: Batch, blocks: readonly number[]): [string, Step][] {
  const decode = (table: readonly number[], position: number): Batch =>
    batchOf([{ tokens: [1], position, blocks: table }]);
  return [
    ['a step without batches', {}],
    ['two batches that write one block', { fast: good, canonical: decode([14, 12], 20) }],
    ['a canonical batch that reads what fast writes', { fast: good, canonical: decode([blocks[1]!, 15], 20) }],
    ['a fast batch that reads what canonical writes', { canonical: good, fast: decode([blocks[1]!, 15], 20) }],
  ];
}
