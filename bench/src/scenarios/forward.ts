import { type Backend, type Batch, OUTPUT_ARGMAX } from '@stet/backend';
import { joinBatches, rowsOf } from '../batches.js';
import { median, rounded } from '../stats.js';
import type { StudyContext } from '../study/context.js';
import { interleaved, type Scenario, type ScenarioResult } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';

const BLOCK_SIZE = 16;
const CONTEXT = 128;
const MAX_ROWS = 512;
const WINDOW = 16;
const ROUNDS = { quick: 3, full: 15 };
const SEQUENCES = { quick: [1, 4, 16, 64], full: [1, 2, 4, 8, 16, 32, 64] };
/** Windows of 16 rows that share a pass. */
const WINDOWS = { quick: [1, 4, 32], full: [1, 2, 4, 8, 16, 32] };

type Shape = 'decode' | 'verify' | 'prefill';

interface Case {
  readonly shape: Shape;
  readonly sequences: number;
  readonly rowsEach: number;
}

/** Milliseconds of one forward. */
type Measure = { readonly fast: number; readonly canonical: number };

export const forward: Scenario<Measure> = {
  name: 'forward',
  title: 'Cost of a forward',
  question: 'How much longer does a forward under the fixed order take, by the number of rows?',
  paperFigure: 'SOSP, figures 4 and 9a',
  units: (study) =>
    interleaved(casesOf(study), study.rounds ?? sized(study, ROUNDS), (one, round) => ({
      key: `${caseKey(one)}, round ${round}`,
      seconds: 0.1,
      run: (context) => measure(context, one, round),
    })),
  result,
};

function casesOf(study: Study): Case[] {
  return [
    ...sized(study, SEQUENCES).map((sequences): Case => ({ shape: 'decode', sequences, rowsEach: 1 })),
    ...sized(study, WINDOWS).map((sequences): Case => ({ shape: 'verify', sequences, rowsEach: WINDOW })),
    { shape: 'prefill', sequences: 1, rowsEach: MAX_ROWS },
  ];
}

function caseKey({ shape, sequences, rowsEach }: Case): string {
  return `${shape} ${sequences} x ${rowsEach}`;
}

async function measure(context: StudyContext, { shape, sequences, rowsEach }: Case, round: number): Promise<Measure> {
  const start = shape === 'prefill' ? 0 : CONTEXT;
  const blocksEach = Math.ceil((start + rowsEach) / BLOCK_SIZE);
  const mostBlocks = Math.max(MAX_ROWS / BLOCK_SIZE, 64 * Math.ceil((CONTEXT + WINDOW) / BLOCK_SIZE));
  const backend = await context.backend({ blockSize: BLOCK_SIZE, blockCount: 1 + mostBlocks, maxRows: MAX_ROWS });
  const { vocabSize } = context.model;
  const tokens = Array.from({ length: MAX_ROWS + WINDOW }, (_, i) => (i * 37 + 11) % vocabSize);
  const firstBlocks = Array.from({ length: sequences }, (_, s) => 1 + s * blocksEach);
  const batch = joinBatches(firstBlocks.map((block) => rowsOf(tokens, start, rowsEach, block, BLOCK_SIZE)));
  // The rows before, so that attention has something to read; and in the fast batch canonical K/V is as good.
  for (const block of start > 0 ? firstBlocks : [])
    await backend.forward({ canonical: lastRowOnly(rowsOf(tokens, 0, start, block, BLOCK_SIZE)) });
  const asked =
    shape === 'prefill' ? lastRowOnly(batch) : { ...batch, outputKinds: batch.outputKinds.fill(OUTPUT_ARGMAX) };
  const both = { fast: 0, canonical: 0 };
  for (const schedule of round % 2 === 0 ? (['fast', 'canonical'] as const) : (['canonical', 'fast'] as const))
    both[schedule] = await time(backend, schedule, asked);
  return both;
}

/** One forward, or the mean of some that are too short for the clock. */
async function time(backend: Backend, schedule: 'fast' | 'canonical', batch: Batch): Promise<number> {
  const repeats = Math.max(1, Math.round(32 / batch.tokens.length));
  const start = performance.now();
  for (let i = 0; i < repeats; i++) await backend.forward({ [schedule]: batch });
  return (performance.now() - start) / repeats;
}

function lastRowOnly(batch: Batch): Batch {
  return { ...batch, outputRows: Int32Array.of(batch.tokens.length - 1), outputKinds: Uint8Array.of(OUTPUT_ARGMAX) };
}

function result(measures: ReadonlyMap<string, Measure>, study: Study): ScenarioResult {
  const rounds = study.rounds ?? sized(study, ROUNDS);
  const figures = casesOf(study).map((one) => {
    const all = Array.from({ length: rounds }, (_, i) => measures.get(`${caseKey(one)}, round ${i + 1}`)!);
    const fast = median(all.map((times) => times.fast));
    const canonical = median(all.map((times) => times.canonical));
    return { ...one, rows: one.sequences * one.rowsEach, fast, canonical, ratio: canonical / fast };
  });
  const at = (shape: Shape, rows: number) => figures.find((one) => one.shape === shape && one.rows === rows)!;
  const [one, most] = [at('decode', 1), at('decode', 64)];
  const prefill = at('prefill', MAX_ROWS);
  return {
    workload: `one forward at a context of ${CONTEXT} rows (prefill: none), median of ${rounds} interleaved rounds`,
    findings: [
      `A row under the fixed order takes ${ratio(one.ratio)} as long as a fast one when it is alone, ${ratio(most.ratio)} among 64, ` +
        `and ${ratio(prefill.ratio)} in a prefill of ${MAX_ROWS}.`,
      `A window of ${WINDOW} rows takes ${ratio(at('verify', WINDOW).canonical / one.fast)} as long as one fast row.`,
    ],
    tables: [
      {
        title: 'Milliseconds of one forward',
        rows: figures.map(({ shape, sequences, rowsEach, fast, canonical, ratio: over }) => ({
          shape,
          sequences,
          'rows each': rowsEach,
          'fast ms': rounded(fast, 3),
          'canonical ms': rounded(canonical, 3),
          'canonical / fast': rounded(over, 2),
        })),
      },
    ],
    charts: [
      {
        name: 'forward',
        title: 'Milliseconds of one forward by its rows',
        caption: 'Lower is better. The flatter a curve begins, the less a window costs beside one token.',
        kind: 'line',
        rows: figures
          .filter(({ shape }) => shape !== 'prefill')
          .flatMap(({ shape, rows, fast, canonical }) => [
            { rows, shape, schedule: 'fast', ms: fast },
            { rows, shape, schedule: 'canonical', ms: canonical },
          ]),
        x: { field: 'rows', title: 'rows', type: 'quantitative', scale: 'log' },
        y: { field: 'ms', title: 'ms', type: 'quantitative', scale: 'log' },
        color: { field: 'schedule', title: 'schedule' },
        facet: { field: 'shape', title: 'shape' },
      },
    ],
    comparisons: [
      {
        what: 'a pass of 512 rows over one of 16',
        source: 'SOSP, figure 9a, Llama-3.1-8B on H100',
        theirs: 14 / 9.7,
        ours: at('verify', MAX_ROWS).canonical / at('verify', WINDOW).canonical,
        better: 'lower',
        note: 'a GPU reads the weights for 16 rows as for 256 and has arithmetic to spare; a CPU with a small model has not',
      },
    ],
  };
}

function ratio(value: number): string {
  return `${value.toFixed(2)} times`;
}
