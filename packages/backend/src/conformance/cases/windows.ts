import type { Backend } from '../../port.js';
import { blocksFor, type ConformanceCase, type ConformanceContext } from '../case.js';
import { expectEqualAnswers, feed, type RowAnswer } from '../drive.js';
import { fail } from '../equal-bits.js';
import { windowedModel } from '../models.js';
import { random } from '../random.js';

/** Sliding windows: what they look at, wherever chunks and blocks begin, and that they look at nothing else. */
export const windowCases: ConformanceCase[] = [
  {
    group: 'windows',
    name: 'windows of any size give equal bits in any chunks',
    scope: 'once',
    async run({ load }) {
      // One position, and around the chunks of 64.
      for (const windowSizes of [[1, 63] as const, [64, 65] as const]) {
        const { plan, weights } = windowedModel(windowSizes);
        const backend = await load({ plan, weights });
        const draw = random(windowSizes[1]);
        const tokens = Array.from({ length: 140 }, () => draw.between(0, plan.vocabSize - 1));
        const whole = await feed(backend, 'canonical', { tokens, blocks: blocksFor(140, 1) });
        const blocks = draw.shuffle(blocksFor(140, 20));
        const chunks = await feed(backend, 'canonical', { tokens, blocks }, { chunk: () => draw.between(1, 20) });
        expectEqualAnswers(chunks, whole, `windows of ${windowSizes.join(' and ')}, random chunks`);
      }
    },
  },
  {
    group: 'windows',
    name: 'K/V before the windows of all layers may be anything',
    scope: 'once',
    async run(context) {
      for (const position of [WIDEST, 47, 64, 73]) await overwriteBefore(context, position);
    },
  },
  {
    group: 'windows',
    name: 'entries of a block table before the windows of all layers may name any block',
    scope: 'once',
    async run(context) {
      const { backend, tokens, others, expected } = await windowed(context);
      await feed(backend, 'canonical', { tokens: others, blocks: [9, 8] }, { want: 'none', end: 32 });
      await feed(backend, 'canonical', { tokens, blocks: [3, 1, 4, 5, 2] }, { want: 'none' });
      // Position 72 attends to 33 and later ones; block 9 is of another sequence, and nobody wrote block 30.
      for (const blocks of [
        [9, 30, 4, 5, 2],
        [30, 30, 4, 5, 2],
        [8, 9, 4, 5, 2],
      ]) {
        const answers = await feed(backend, 'canonical', { tokens, blocks }, { first: 72 });
        expectEqualAnswers(answers, expected, `table ${blocks.join(', ')}`);
      }
    },
  },
];

/** Positions that the layer with the wider window of these cases attends to. */
const WIDEST = 40;

interface Windowed {
  readonly backend: Backend;
  readonly tokens: readonly number[];
  /** As many, and different at every position. */
  readonly others: readonly number[];
  /** The answers of all positions. */
  readonly expected: readonly RowAnswer[];
}

async function windowed({ load, sequences }: ConformanceContext): Promise<Windowed> {
  const { plan, weights } = windowedModel([20, WIDEST]);
  const tokens = sequences[0]!.map((token) => token % plan.vocabSize);
  const others = tokens.map((token, i) => (token + 1 + (i % 7)) % plan.vocabSize);
  const expected = await feed(await load({ plan, weights }), 'canonical', { tokens, blocks: blocksFor(75, 1) });
  return { backend: await load({ plan, weights }), tokens, others, expected };
}

/**
 * Fills the sequence's own blocks with other K/V up to the last position that no layer's window holds at `position`,
 * which changes nothing from there on; then one position further, which must show.
 */
async function overwriteBefore(context: ConformanceContext, position: number): Promise<void> {
  const { backend, tokens, others, expected } = await windowed(context);
  const sequence = { tokens, blocks: [7, 2, 11, 5, 3] };
  const outside = position + 1 - WIDEST;
  const overwritten = { ...sequence, tokens: others };
  for (const rowCount of [1, 75]) {
    await feed(backend, 'canonical', sequence, { end: position, want: 'none' });
    await feed(backend, 'canonical', overwritten, { end: outside, want: 'none' });
    const answers = await feed(backend, 'canonical', sequence, { first: position, chunk: () => rowCount });
    expectEqualAnswers(answers, expected, `${outside} positions overwritten, chunks of ${rowCount}`);
  }
  await feed(backend, 'canonical', sequence, { end: position, want: 'none' });
  await feed(backend, 'canonical', overwritten, { end: outside + 1, want: 'none' });
  const [answer] = await feed(backend, 'canonical', sequence, { first: position, end: position + 1 });
  const isEqual = answer!.logits!.every((logit, i) => Object.is(logit, expected[position]!.logits![i]));
  if (isEqual) fail(`position ${outside} does not count at position ${position}, though the window holds it`);
}
