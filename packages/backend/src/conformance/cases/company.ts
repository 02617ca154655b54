import type { ConformanceCase, ConformanceContext } from '../case.js';
import { expectEqualAnswers, forward, type Rows, type Want } from '../drive.js';
import { type Random, random } from '../random.js';

/** All at once, as a scheduler drives a backend: what the other groups check one by one must hold together. */
export const companyCases: ConformanceCase[] = [
  {
    group: 'company',
    name: 'sequences that are decoded, verified, rolled back and moved at random never touch one another',
    scope: 'eachModel',
    async run(context) {
      await drive(context, random(21));
    },
  },
];

/** A sequence on its way; its tokens are those of `context.sequences[index]`. */
interface Traveller {
  readonly index: number;
  readonly blocks: number[];
  committedCount: number;
  /** Positions from committedCount on that the fast schedule filled. */
  candidateCount: number;
}

/** Blocks that are free beyond what all sequences need, so that most are reused. */
const SPARE_BLOCKS = 2;
/** How often a sequence is run to its end, each time in other blocks. */
const ROUNDS = 2;

async function drive(context: ConformanceContext, draw: Random): Promise<void> {
  const { load, sequences, solo, model } = context;
  const needed = sequences.map((tokens) => Math.ceil(tokens.length / 16));
  const blockCount = needed.reduce((a, b) => a + b, 1 + SPARE_BLOCKS);
  const backend = await load({ blockCount, maxRows: 64 });
  const free = draw.shuffle(Array.from({ length: blockCount - 1 }, (_, i) => i + 1));
  const start = (index: number): Traveller => {
    return { index, blocks: free.splice(0, needed[index]), committedCount: 0, candidateCount: 0 };
  };
  const roundsLeft = sequences.map(() => ROUNDS - 1);
  let travellers = draw.shuffle([...sequences.keys()]).map(start);
  for (let step = 0; travellers.length > 0; step++) {
    const { fast, canonical } = choose(travellers, sequences, draw, model.plan.vocabSize);
    if (fast.length + canonical.length === 0) continue;
    const answers = await forward(backend, {
      ...(fast.length > 0 && { fast: fast.map(({ rows }) => rows) }),
      ...(canonical.length > 0 && { canonical: canonical.map(({ rows }) => rows) }),
    });
    for (const { traveller } of fast) traveller.candidateCount++;
    for (const [place, { traveller, rows }] of canonical.entries()) {
      const at = `step ${step}, sequence ${traveller.index}`;
      expectEqualAnswers(answers.canonical[place]!, await solo(traveller.index), at);
      traveller.committedCount += rows.tokens.length;
      traveller.candidateCount = 0;
    }
    const isDone = ({ index, committedCount }: Traveller): boolean => committedCount === sequences[index]!.length;
    const done = travellers.filter(isDone);
    for (const { blocks } of done) free.push(...blocks);
    const again = done.filter(({ index }) => roundsLeft[index]!-- > 0).map(({ index }) => start(index));
    travellers = draw.shuffle([...travellers.filter((traveller) => !isDone(traveller)), ...again]);
  }
}

interface Turn {
  readonly traveller: Traveller;
  readonly rows: Rows;
}

/** Each sequence waits, gets one more candidate (right or wrong), or has a window run canonically. */
function choose(
  travellers: readonly Traveller[],
  sequences: readonly (readonly number[])[],
  draw: Random,
  vocabSize: number,
): { fast: Turn[]; canonical: Turn[] } {
  const fast: Turn[] = [];
  const canonical: Turn[] = [];
  for (const traveller of travellers) {
    const { index, blocks, committedCount, candidateCount } = traveller;
    const tokens = sequences[index]!;
    const next = committedCount + candidateCount;
    const action = draw.between(0, 3);
    if (action === 0) continue;
    if (action === 1 || committedCount === 0 || next >= tokens.length) {
      const window = tokens.slice(committedCount, committedCount + draw.between(1, 10));
      const want = window.map((): Want => (['none', 'argmax', 'logits'] as const)[draw.between(0, 2)]!);
      canonical.push({ traveller, rows: { tokens: window, position: committedCount, blocks, want } });
    } else {
      const token = (tokens[next]! + (draw.between(0, 2) === 0 ? 1 : 0)) % vocabSize;
      fast.push({ traveller, rows: { tokens: [token], position: next, blocks, want: 'argmax' } });
    }
  }
  return { fast, canonical };
}
