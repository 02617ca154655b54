import { blocksFor, type ConformanceCase } from '../case.js';
import { expectEqualAnswers, feed, forward, type Rows } from '../drive.js';
import { random } from '../random.js';

export const limitCases: ConformanceCase[] = [
  {
    group: 'limits',
    name: 'a batch may have exactly maxRows rows, in one sequence or in many',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load({ maxRows: 33 });
      const whole = { tokens: sequences[1]!, position: 0, blocks: [1, 2, 3] };
      const { canonical, fast } = await forward(backend, {
        canonical: [whole],
        fast: [{ ...whole, blocks: [37, 38, 39], want: 'argmax' }],
      });
      expectEqualAnswers(canonical[0]!, await solo(1), 'one sequence');
      if (backend.info.fast === 'canonical') expectEqualAnswers(fast[0]!, await solo(1), 'one fast sequence');
      const single = Array.from(
        { length: 33 },
        (_, i): Rows => ({ tokens: sequences[4]!, position: 0, blocks: [i + 1] }),
      );
      const many = await forward(backend, { canonical: single });
      for (const [s, answers] of many.canonical.entries()) {
        expectEqualAnswers(answers, await solo(4), `sequence ${s} of 33`);
      }
    },
  },
  {
    group: 'limits',
    name: 'the last position of the context is like any other',
    scope: 'eachModel',
    async run({ load, model, soloOf }) {
      const { contextLength, vocabSize } = model.plan;
      const draw = random(contextLength);
      const tokens = Array.from({ length: contextLength }, () => draw.between(0, vocabSize - 1));
      const sequence = { tokens, blocks: blocksFor(contextLength, 20).toReversed() };
      const backend = await load();
      const expected = await soloOf(tokens);
      await feed(backend, 'canonical', sequence, { end: contextLength - 3, chunk: () => 50, want: 'none' });
      const last = await feed(backend, 'canonical', sequence, { first: contextLength - 3, chunk: () => 1 });
      expectEqualAnswers(last, expected, 'the last three positions');
    },
  },
  {
    group: 'limits',
    name: 'all blocks of the pool hold K/V at once',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load({ blockCount: 7 });
      const tables = [
        [6, 2, 4],
        [1, 5, 3],
      ];
      const which = [1, 5] as const;
      for (const [i, index] of which.entries()) {
        const sequence = { tokens: sequences[index]!, blocks: tables[i]! };
        await feed(backend, 'canonical', sequence, { end: 30, want: 'none' });
      }
      for (const [i, index] of which.entries()) {
        const sequence = { tokens: sequences[index]!, blocks: tables[i]! };
        expectEqualAnswers(
          await feed(backend, 'canonical', sequence, { first: 30 }),
          await solo(index),
          `sequence ${i}`,
        );
      }
    },
  },
];
