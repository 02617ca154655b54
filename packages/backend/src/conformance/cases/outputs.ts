import { blocksFor, type ConformanceCase } from '../case.js';
import { expectEqualAnswers, feed, forward, type RowAnswer, type Want } from '../drive.js';
import { expectEqual, expectEqualBits, fail } from '../equal-bits.js';
import { tiedModel } from '../models.js';

export const outputCases: ConformanceCase[] = [
  {
    group: 'outputs',
    name: 'a row answers what it was asked, whatever the others ask',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const patterns: [string, (row: number) => Want][] = [
        ['arg-max of all rows', () => 'argmax'],
        ['logits of every third row', (row) => (row % 3 === 1 ? 'logits' : 'none')],
        ['arg-max and logits in turn', (row) => (row % 2 === 0 ? 'argmax' : 'logits')],
        ['the last row alone', (row) => (row === 32 ? 'logits' : 'none')],
        ['the first row alone', (row) => (row === 0 ? 'argmax' : 'none')],
      ];
      for (const [name, pattern] of patterns) {
        const want = sequences[1]!.map((_, row) => pattern(row));
        const rows = { tokens: sequences[1]!, position: 0, blocks: [3, 1, 2], want };
        const { canonical } = await forward(backend, { canonical: [rows] });
        expectEqualAnswers(canonical[0]!, await solo(1), name);
      }
    },
  },
  {
    group: 'outputs',
    name: 'a batch without outputs writes K/V and gives empty arrays',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const sequence = { tokens: sequences[5]!, blocks: [3, 1, 2] };
      expectEqual((await feed(backend, 'canonical', sequence, { end: 39, want: 'none' })).length, 0, 'answers');
      expectEqualAnswers(await feed(backend, 'canonical', sequence, { first: 39 }), await solo(5), 'the row after it');
    },
  },
  {
    group: 'outputs',
    name: 'the arg-max is the lowest token among equal logits',
    scope: 'once',
    async run({ load, sequences }) {
      const backend = await load({ plan: tiedModel().plan, weights: tiedModel().weights });
      const tokens = sequences[1]!.map((token) => token % 96);
      for (const want of ['logits', 'argmax'] as const) {
        const sequence = { tokens, blocks: blocksFor(33, 1) };
        for (const [row, answer] of (await feed(backend, 'canonical', sequence, { want })).entries()) {
          if (want === 'logits') expectTies(answer, row);
          if (answer.argmax >= 32)
            fail(`row ${row}: arg-max ${answer.argmax}, though an equal logit has a lower token`);
        }
      }
    },
  },
];

function expectTies({ logits }: RowAnswer, row: number): void {
  expectEqualBits(logits!.subarray(32, 64), logits!.subarray(0, 32), `row ${row}: logits of equal head rows`);
  expectEqualBits(logits!.subarray(64, 96), logits!.subarray(0, 32), `row ${row}: logits of equal head rows`);
}
