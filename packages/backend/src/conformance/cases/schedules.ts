import { exp, ln } from '../../numerics/index.js';
import { blocksFor, type ConformanceCase, type ConformanceContext } from '../case.js';
import { expectEqualAnswers, feed, forward, type RowAnswer, type Rows } from '../drive.js';
import { expectEqual, fail } from '../equal-bits.js';

export const scheduleCases: ConformanceCase[] = [
  {
    group: 'schedules',
    name: 'both batches of a step at once equal each alone',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const fast = [rowsOf(sequences[1]!, 1), rowsOf(sequences[3]!, 4), rowsOf(sequences[4]!, 6)];
      const canonical = [rowsOf(sequences[0]!, 10), rowsOf(sequences[2]!, 20), rowsOf(sequences[5]!, 30)];
      const alone = (await forward(await load(), { fast })).fast;
      const step = await forward(await load(), { fast, canonical });
      for (const [place, answers] of alone.entries()) {
        expectEqualAnswers(step.fast[place]!, present(answers), `fast sequence ${place}`);
      }
      for (const [place, i] of [0, 2, 5].entries()) {
        expectEqualAnswers(step.canonical[place]!, await solo(i), `canonical sequence ${i}`);
      }
    },
  },
  {
    group: 'schedules',
    name: 'canonical rows never depend on fast traffic',
    scope: 'eachModel',
    async run({ load, sequences, solo }) {
      const backend = await load();
      const blocks = blocksFor(75, 30);
      const others = [1, 2, 3, 5];
      for (let position = 0; position < 75; position += 5) {
        const fast = others
          .filter((i) => position + 5 <= sequences[i]!.length)
          .map((i): Rows => {
            const tokens = sequences[i]!.slice(position, position + 5);
            return { tokens, position, blocks: blocksFor(sequences[i]!.length, i * 4), want: 'argmax' };
          });
        const tokens = sequences[0]!.slice(position, position + 5);
        const step = { canonical: [{ tokens, position, blocks }], ...(fast.length > 0 && { fast }) };
        const { canonical } = await forward(backend, step);
        expectEqualAnswers(canonical[0]!, await solo(0), `beside ${fast.length} fast sequences`);
      }
    },
  },
  {
    group: 'schedules',
    name: 'both batches of a step may read the blocks of a common prefix',
    scope: 'eachModel',
    async run({ load, sequences, soloOf }) {
      const backend = await load();
      const prefix = sequences[0]!.slice(0, 32);
      await feed(backend, 'canonical', { tokens: prefix, blocks: [7, 3] }, { want: 'none' });
      const ends = [sequences[3]!, sequences[2]!, sequences[5]!];
      const branches = ends.map(
        (tokens, i): Rows => ({ tokens, position: 32, blocks: [7, 3, ...blocksFor(40, 10 + 3 * i)] }),
      );
      const { canonical } = await forward(backend, { canonical: branches.slice(0, 2), fast: branches.slice(2) });
      for (const [place, answers] of canonical.entries()) {
        expectEqualAnswers(answers, await soloOf([...prefix, ...ends[place]!]), `branch ${place}`);
      }
    },
  },
  {
    group: 'schedules',
    name: 'the fast schedule is what the backend says it is',
    scope: 'eachModel',
    async run(context) {
      const backend = await context.load();
      switch (backend.info.fast) {
        case 'canonical':
          return fastIsCanonical(context);
        case 'free':
          return fastIsClose(context);
        default:
          fail(`info.fast is ${backend.info.fast satisfies never}`);
      }
    },
  },
];

const rowsOf = (tokens: readonly number[], firstBlock: number): Rows => ({
  tokens,
  position: 0,
  blocks: blocksFor(tokens.length, firstBlock),
});

function present(answers: readonly (RowAnswer | undefined)[]): RowAnswer[] {
  return answers.filter((answer) => answer !== undefined);
}

/** Logits and K/V of the fast schedule have the canonical bits, whatever shape its batches have. */
async function fastIsCanonical({ load, sequences, solo }: ConformanceContext): Promise<void> {
  const backend = await load();
  const sequence = { tokens: sequences[0]!, blocks: [5, 9, 2, 8, 1] };
  for (const rowCount of [1, 3, 16, 75]) {
    const answers = await feed(backend, 'fast', sequence, { chunk: () => rowCount });
    expectEqualAnswers(answers, await solo(0), `fast in chunks of ${rowCount}`);
  }
  await feed(backend, 'fast', sequence, { end: 70, chunk: () => 7, want: 'argmax' });
  expectEqualAnswers(await feed(backend, 'canonical', sequence, { first: 70 }), await solo(0), 'canonical after fast');
}

/** Mean KL of a fast row to the canonical one that ordinary bf16 inference stays far below; noise is far above. */
const MAX_MEAN_KL = 0.005;
/** Share of rows with equal arg-max; small random models have many near ties. */
const MIN_AGREEMENT = 0.9;

async function fastIsClose({ load, sequences, solo }: ConformanceContext): Promise<void> {
  for (const rowCount of [1, 4, 40]) {
    const backend = await load();
    let kl = 0;
    let agreeing = 0;
    let rows = 0;
    for (const i of [0, 1, 5]) {
      const sequence = { tokens: sequences[i]!, blocks: blocksFor(sequences[i]!.length, 1) };
      const answers = await feed(backend, 'fast', sequence, { chunk: () => rowCount });
      const expected = await solo(i);
      for (const [row, answer] of answers.entries()) {
        kl += divergence(expected[row]!.logits!, answer.logits!);
        agreeing += answer.argmax === expected[row]!.argmax ? 1 : 0;
        rows++;
      }
    }
    expectEqual(rows, 148, 'rows compared');
    const found = `in chunks of ${rowCount}: mean KL ${(kl / rows).toExponential(2)}, arg-max agreement ${agreeing / rows}`;
    if (!(kl / rows <= MAX_MEAN_KL)) fail(`${found}; allowed is a mean KL of ${MAX_MEAN_KL}`);
    if (agreeing / rows < MIN_AGREEMENT) fail(`${found}; expected an agreement of ${MIN_AGREEMENT}`);
  }
}

/** KL(softmax(p) || softmax(q)) in nats. */
function divergence(p: Float32Array, q: Float32Array): number {
  const logP = logSoftmax(p);
  const logQ = logSoftmax(q);
  return logP.reduce((sum, value, i) => sum + exp(value) * (value - logQ[i]!), 0);
}

function logSoftmax(logits: Float32Array): number[] {
  const top = logits.reduce((a, b) => Math.max(a, b));
  const sum = logits.reduce((total, logit) => total + exp(logit - top), 0);
  return Array.from(logits, (logit) => logit - top - ln(sum));
}
