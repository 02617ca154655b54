import { blocksFor, type ConformanceCase } from '../case.js';
import { expectEqualAnswers, feed, forward, type RowAnswer, type Want } from '../drive.js';
import { expectEqual, expectEqualBits, fail } from '../equal-bits.js';
import { tiedModel, vocabularyModel } from '../models.js';

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
    name: 'the arg-max is the lowest token among equal logits, and the runner-up is as large',
    scope: 'once',
    async run({ load, sequences }) {
      // Equals 32 apart fall into one lane of any kernel, those 37 apart into different ones.
      for (const tiePeriod of [32, 37]) {
        const { plan, weights } = tiedModel(tiePeriod);
        const backend = await load({ plan, weights });
        const sequence = { tokens: sequences[1]!.map((token) => token % 96), blocks: blocksFor(33, 1) };
        for (const want of ['logits', 'argmax'] as const) {
          for (const [row, answer] of (await feed(backend, 'canonical', sequence, { want })).entries()) {
            expectTies(answer, row, tiePeriod);
          }
        }
      }
    },
  },
  {
    group: 'outputs',
    name: 'arg-max and runner-up are found wherever they stand in a vocabulary of any size',
    scope: 'once',
    async run({ load, sequences }) {
      // One vector of a kernel, one and a token, many tiles and a token.
      for (const vocabSize of [2, 16, 17, 513, 1100]) {
        const { plan, weights } = vocabularyModel(vocabSize);
        const backend = await load({ plan, weights });
        const sequence = { tokens: sequences[0]!.map((token) => token % vocabSize), blocks: blocksFor(75, 1) };
        await feed(backend, 'fast', sequence);
        await feed(backend, 'fast', sequence, { want: 'argmax' });
        const withLogits = await feed(backend, 'canonical', sequence);
        const without = await feed(backend, 'canonical', sequence, { want: 'argmax' });
        expectEqual(without.length, 75, 'answers');
        expectEqualAnswers(without, withLogits, `${vocabSize} tokens, arg-max alone`);
      }
    },
  },
  {
    group: 'outputs',
    name: 'in a vocabulary of one token its logit has no runner-up',
    scope: 'once',
    async run({ load }) {
      const { plan, weights } = vocabularyModel(1);
      const backend = await load({ plan, weights });
      const sequence = { tokens: [0, 0, 0], blocks: [1] };
      for (const schedule of ['canonical', 'fast'] as const) {
        for (const want of ['logits', 'argmax'] as const) {
          for (const { argmax, runnerUpLogit } of await feed(backend, schedule, sequence, { want })) {
            expectEqual(argmax, 0, `${schedule}, ${want}: arg-max`);
            expectEqual(runnerUpLogit, Number.NEGATIVE_INFINITY, `${schedule}, ${want}: runner-up logit`);
          }
        }
      }
    },
  },
];

function expectTies({ argmax, argmaxLogit, runnerUpLogit, logits }: RowAnswer, row: number, tiePeriod: number): void {
  if (argmax >= tiePeriod) fail(`row ${row}: arg-max ${argmax}, though an equal logit has a lower token`);
  expectEqualBits(Float32Array.of(runnerUpLogit), Float32Array.of(argmaxLogit), `row ${row}: runner-up of a tie`);
  if (!logits) return;
  for (let first = tiePeriod; first < logits.length; first += tiePeriod) {
    const equals = logits.subarray(first, first + tiePeriod);
    expectEqualBits(equals, logits.subarray(0, equals.length), `row ${row}: logits of equal head rows`);
  }
}
