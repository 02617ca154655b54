import { blocksFor, type ConformanceCase } from '../case.js';
import { expectEqualAnswers, feed } from '../drive.js';

export const repeatCases: ConformanceCase[] = [
  {
    group: 'repeat',
    name: 'the same steps run twice give equal bits',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const sequence = { tokens: sequences[0]!, blocks: blocksFor(sequences[0]!.length, 1) };
      for (const round of ['first', 'second', 'third']) {
        expectEqualAnswers(
          await feed(backend, 'canonical', sequence, { chunk: () => 25 }),
          await solo(0),
          `${round} run`,
        );
      }
    },
  },
  {
    group: 'repeat',
    name: 'two backends in turn and at once give equal bits',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backends = [await load(), await load()];
      const runs = backends.map((backend, i) => {
        const tokens = sequences[i]!;
        return feed(backend, 'canonical', { tokens, blocks: blocksFor(tokens.length, 3) }, { chunk: () => 9 });
      });
      for (const [i, answers] of (await Promise.all(runs)).entries()) {
        expectEqualAnswers(answers, await solo(i), `backend ${i}`);
      }
    },
  },
];
