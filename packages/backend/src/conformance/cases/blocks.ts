import { blocksFor, type ConformanceCase, tablesFor } from '../case.js';
import { expectEqualAnswers, feed, forward, type Rows, scatterTables } from '../drive.js';
import { random } from '../random.js';

export const blockCases: ConformanceCase[] = [
  {
    group: 'blocks',
    name: 'blocks that other sequences filled are as good as new',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load({ blockCount: 16 });
      for (const [round, schedule] of (['fast', 'canonical'] as const).entries()) {
        const order = random(round).shuffle<number>;
        const filled = sequences.map((tokens, i) => ({ tokens, blocks: tablesFor(sequences, order)[i]! }));
        for (const sequence of filled) await feed(backend, schedule, sequence, { want: 'none' });
        const reused = { tokens: sequences[0]!, blocks: [15, 1, 8, 4, 11] };
        const answers = await feed(backend, 'canonical', reused, { chunk: () => 11 });
        expectEqualAnswers(answers, await solo(0), `after the ${schedule} schedule filled all blocks`);
      }
    },
  },
  {
    group: 'blocks',
    name: 'sequences of a batch may share the blocks of a common prefix',
    scope: 'eachModel',
    async run({ load, sequences, soloOf }) {
      const backend = await load();
      const prefix = sequences[0]!.slice(0, 48);
      await feed(backend, 'canonical', { tokens: prefix, blocks: [4, 2, 9] }, { want: 'none' });
      const ends = [sequences[2]!, sequences[4]!, sequences[3]!];
      const rows = ends.map(
        (tokens, i): Rows => ({ tokens, position: 48, blocks: [4, 2, 9, ...blocksFor(20, 12 + 2 * i)] }),
      );
      const { canonical } = await forward(backend, { canonical: rows });
      for (const [i, answers] of canonical.entries()) {
        expectEqualAnswers(answers, await soloOf([...prefix, ...ends[i]!]), `sequence ${i} after the prefix`);
      }
    },
  },
  {
    group: 'blocks',
    name: 'blocks of a table after the last position are neither read nor written',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const rows: Rows[] = [
        { tokens: sequences[3]!, position: 0, blocks: [1, 2, 3, 4, 5] },
        { tokens: sequences[1]!, position: 0, blocks: [3, 4, 5, 1] },
        { tokens: sequences[2]!, position: 0, blocks: [6, 1, 2, 3] },
      ];
      const { canonical } = await forward(backend, { canonical: rows });
      for (const [place, i] of [3, 1, 2].entries()) {
        expectEqualAnswers(canonical[place]!, await solo(i), `sequence ${i}, prefill`);
      }
      const again = rows.map((row): Rows => {
        const position = row.tokens.length - 1;
        return { tokens: row.tokens.slice(position), position, blocks: row.blocks };
      });
      const decoded = (await forward(backend, { canonical: again })).canonical;
      for (const [place, i] of [3, 1, 2].entries()) {
        expectEqualAnswers(decoded[place]!, await solo(i), `sequence ${i}, last position decoded again`);
      }
    },
  },
  {
    group: 'blocks',
    name: 'block tables may stand anywhere in the blocks, in any order, with anything between them',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const tables = tablesFor(sequences);
      const order = [3, 1, 2];
      const rows = order.map((i): Rows => ({ tokens: sequences[i]!, position: 0, blocks: tables[i]! }));
      const { canonical } = await forward(backend, { canonical: rows }, scatterTables);
      for (const [place, answers] of canonical.entries()) {
        expectEqualAnswers(answers, await solo(order[place]!), `sequence ${order[place]}, scattered tables`);
      }
    },
  },
];
