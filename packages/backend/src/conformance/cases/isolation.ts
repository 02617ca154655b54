import { blocksFor, type ConformanceCase, type ConformanceContext, tablesFor } from '../case.js';
import { expectEqualAnswers, feed, forward, type Rows, type Want } from '../drive.js';
import { type Random, random } from '../random.js';

export const isolationCases: ConformanceCase[] = [
  {
    group: 'isolation',
    name: 'rows in a crowd have the bits of rows alone',
    scope: 'eachModel',
    run: (context) => crowd(context, context.sequences.keys(), (ids) => ids),
  },
  {
    group: 'isolation',
    name: 'the order of sequences in a batch changes no bit',
    scope: 'eachModel',
    async run(context) {
      const indices = [...context.sequences.keys()];
      await crowd(context, indices.toReversed(), (ids) => ids);
      await crowd(context, random(1).shuffle(indices), (ids) => ids);
    },
  },
  {
    group: 'isolation',
    name: 'block ids change no bit',
    scope: 'eachModel',
    async run(context) {
      const high = (ids: number[]): number[] => ids.map((id) => 40 - id);
      await crowd(context, context.sequences.keys(), high);
      await crowd(context, context.sequences.keys(), random(2).shuffle);
    },
  },
  {
    group: 'isolation',
    name: 'prefill, decode and any chunks give equal bits',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const sequence = { tokens: sequences[0]!, blocks: [9, 4, 30, 2, 17] };
      const draw = random(3);
      const chunkings: [string, () => number][] = [
        ['decode', () => 1],
        ['chunks of 7', () => 7],
        ['chunks of 16', () => 16],
        ['chunks of 64', () => 64],
        ['random short chunks', () => draw.between(1, 5)],
        ['random chunks', () => draw.between(1, 40)],
      ];
      for (const [name, chunk] of chunkings) {
        expectEqualAnswers(await feed(backend, 'canonical', sequence, { chunk }), await solo(0), name);
      }
    },
  },
  {
    group: 'isolation',
    name: 'a window may start and end anywhere, also where later positions are filled',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const sequence = { tokens: sequences[0]!, blocks: blocksFor(75, 5) };
      await feed(backend, 'canonical', sequence, { want: 'none' });
      for (const [first, end] of [
        [0, 1],
        [15, 16],
        [15, 17],
        [16, 48],
        [31, 33],
        [60, 70],
        [63, 65],
        [1, 75],
        [74, 75],
      ]) {
        const answers = await feed(backend, 'canonical', sequence, { first: first!, end: end! });
        expectEqualAnswers(answers, await solo(0), `window ${first} to ${end}`);
      }
    },
  },
  {
    group: 'isolation',
    name: 'sequences interleaved at random have the bits of sequences alone',
    scope: 'eachModel',
    async run(context) {
      for (const seed of [4, 5]) await interleave(context, random(seed), `seed ${seed}`);
    },
  },
  {
    group: 'isolation',
    name: 'the sizes a backend is loaded with change no bit',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      for (const sizes of [{ maxRows: 5 }, { blockSize: 32 }, { blockSize: 64, blockCount: 3, maxRows: 75 }]) {
        const backend = await load(sizes);
        const { blockSize } = backend.info;
        const sequence = { tokens: sequences[0]!, blocks: blocksFor(75, 1, blockSize).toReversed() };
        expectEqualAnswers(await feed(backend, 'canonical', sequence), await solo(0), JSON.stringify(sizes));
      }
    },
  },
];

/** Prefills the sequences of these indices in one batch, then decodes the last position of each again in one batch. */
async function crowd(
  { load, sequences, solo }: ConformanceContext,
  indices: Iterable<number>,
  order: (ids: number[]) => number[],
): Promise<void> {
  const backend = await load();
  const tables = tablesFor(sequences, order);
  const present = [...indices];
  for (const stage of ['prefill', 'decode'] as const) {
    const rows = present.map((i): Rows => {
      const position = stage === 'prefill' ? 0 : sequences[i]!.length - 1;
      return { tokens: sequences[i]!.slice(position), position, blocks: tables[i]! };
    });
    const { canonical } = await forward(backend, { canonical: rows });
    for (const [place, i] of present.entries()) {
      expectEqualAnswers(canonical[place]!, await solo(i), `${stage}, sequence ${i} at place ${place}`);
    }
  }
}

/** Advances all sequences in random company, chunks, order and kinds of output until every one is through. */
async function interleave({ load, sequences, solo }: ConformanceContext, draw: Random, where: string): Promise<void> {
  const backend = await load();
  const tables = tablesFor(sequences, draw.shuffle);
  const done = sequences.map(() => 0);
  for (let step = 0; done.some((count, i) => count < sequences[i]!.length); step++) {
    const open = [...sequences.keys()].filter((i) => done[i]! < sequences[i]!.length);
    const chosen = draw.shuffle(open).slice(0, draw.between(1, open.length));
    const rows = chosen.map((i): Rows => {
      const tokens = sequences[i]!.slice(done[i], done[i]! + draw.between(1, draw.between(1, 30)));
      const want = tokens.map((): Want => (['none', 'argmax', 'logits', 'logits'] as const)[draw.between(0, 3)]!);
      return { tokens, position: done[i]!, blocks: tables[i]!, want };
    });
    const { canonical } = await forward(backend, { canonical: rows });
    for (const [place, i] of chosen.entries()) {
      expectEqualAnswers(canonical[place]!, await solo(i), `${where}, step ${step}, sequence ${i} at place ${place}`);
      done[i]! += rows[place]!.tokens.length;
    }
  }
}
