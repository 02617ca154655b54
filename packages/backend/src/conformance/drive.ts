import { type Batch, type BatchResult, OUTPUT_ARGMAX, OUTPUT_LOGITS } from '../batch.js';
import type { Backend } from '../port.js';
import { ConformanceFailure, expectEqual, expectEqualBits, fail } from './equal-bits.js';

/** What a row asks for. */
export type Want = 'none' | 'argmax' | 'logits';

/** Rows of one sequence in a batch. */
export interface Rows {
  readonly tokens: readonly number[];
  /** Of the first row. */
  readonly position: number;
  readonly blocks: readonly number[];
  /** For all rows or row by row; default `logits`. */
  readonly want?: Want | readonly Want[];
}

/** What a backend said of a row; copied, so it outlives the next call. */
export interface RowAnswer {
  readonly position: number;
  readonly argmax: number;
  readonly argmaxLogit: number;
  readonly runnerUpLogit: number;
  /** Absent where the row asked for its arg-max alone. */
  readonly logits?: Float32Array;
}

/** Answers by sequence and row; undefined for a row that asked for nothing. */
export type Answers = readonly (readonly (RowAnswer | undefined)[])[];

export function batchOf(sequences: readonly Rows[]): Batch {
  const wants = sequences.flatMap(({ tokens, want = 'logits' }) => tokens.map((_, i) => wantOf(want, i)));
  const outputRows = [...wants.keys()].filter((row) => wants[row] !== 'none');
  return {
    tokens: Int32Array.from(sequences.flatMap((rows) => rows.tokens)),
    positions: Int32Array.from(sequences.flatMap((rows) => rows.tokens.map((_, i) => rows.position + i))),
    rowStarts: Int32Array.from(prefixSums(sequences.map((rows) => rows.tokens.length))),
    blockStarts: Int32Array.from(prefixSums(sequences.map((rows) => rows.blocks.length)).slice(0, -1)),
    blocks: Int32Array.from(sequences.flatMap((rows) => rows.blocks)),
    outputRows: Int32Array.from(outputRows),
    outputKinds: Uint8Array.from(outputRows, (row) => (wants[row] === 'logits' ? OUTPUT_LOGITS : OUTPUT_ARGMAX)),
  };
}

/** A batch of {@link batchOf} with its tables in reverse order, and around each of them ids that no block has. */
export function scatterTables(batch: Batch): Batch {
  const blocks = [-1];
  const blockStarts = new Int32Array(batch.blockStarts.length);
  for (let s = blockStarts.length - 1; s >= 0; s--) {
    blockStarts[s] = blocks.length;
    blocks.push(...batch.blocks.subarray(batch.blockStarts[s], batch.blockStarts[s + 1]), -1);
  }
  return { ...batch, blockStarts, blocks: Int32Array.from(blocks) };
}

/** (lengths.length + 1): where each part begins and the last one ends. */
export function prefixSums(lengths: readonly number[]): number[] {
  const sums = [0];
  for (const length of lengths) sums.push(sums.at(-1)! + length);
  return sums;
}

function wantOf(want: Want | readonly Want[], row: number): Want {
  return typeof want === 'string' ? want : want[row]!;
}

/**
 * Runs a step and checks that each result has its promised shape, that every arg-max is the lowest of the largest logits
 * and every runner-up the largest of the others.
 */
export async function forward(
  backend: Backend,
  step: { fast?: readonly Rows[]; canonical?: readonly Rows[] },
  layout: (batch: Batch) => Batch = (batch) => batch,
): Promise<{ fast: Answers; canonical: Answers }> {
  const fast = step.fast && layout(batchOf(step.fast));
  const canonical = step.canonical && layout(batchOf(step.canonical));
  const result = await backend.forward({ ...(fast && { fast }), ...(canonical && { canonical }) });
  return {
    fast: answersOf('fast', fast, result.fast, backend.info.vocabSize),
    canonical: answersOf('canonical', canonical, result.canonical, backend.info.vocabSize),
  };
}

function answersOf(
  schedule: string,
  batch: Batch | undefined,
  result: BatchResult | undefined,
  vocabSize: number,
): Answers {
  if (!batch || !result) {
    if (batch || result)
      fail(`the step has ${batch ? 'a' : 'no'} ${schedule} batch, its result ${result ? 'one' : 'none'}`);
    return [];
  }
  const logitsRows = batch.outputKinds.filter((kind) => kind === OUTPUT_LOGITS).length;
  expectEqual(result.argmax.length, batch.outputRows.length, `length of ${schedule} argmax`);
  expectEqual(result.argmaxLogit.length, batch.outputRows.length, `length of ${schedule} argmaxLogit`);
  expectEqual(result.runnerUpLogit.length, batch.outputRows.length, `length of ${schedule} runnerUpLogit`);
  expectEqual(result.logits.length, logitsRows * vocabSize, `length of ${schedule} logits`);
  const byRow = new Map<number, RowAnswer>();
  let logitsEnd = 0;
  batch.outputRows.forEach((row, i) => {
    const answer = {
      position: batch.positions[row]!,
      argmax: result.argmax[i]!,
      argmaxLogit: result.argmaxLogit[i]!,
      runnerUpLogit: result.runnerUpLogit[i]!,
    };
    if (batch.outputKinds[i] === OUTPUT_ARGMAX) {
      byRow.set(row, answer);
    } else {
      logitsEnd += vocabSize;
      byRow.set(row, { ...answer, logits: result.logits.slice(logitsEnd - vocabSize, logitsEnd) });
    }
    checkArgmax(byRow.get(row)!, vocabSize, `${schedule} row ${row}, position ${answer.position}`);
  });
  return Array.from({ length: batch.rowStarts.length - 1 }, (_, s) =>
    Array.from({ length: batch.rowStarts[s + 1]! - batch.rowStarts[s]! }, (_, i) => byRow.get(batch.rowStarts[s]! + i)),
  );
}

function checkArgmax(answer: RowAnswer, vocabSize: number, where: string): void {
  const { logits, argmax, argmaxLogit, runnerUpLogit } = answer;
  if (!Number.isFinite(argmaxLogit)) fail(`${where}: the largest logit is ${argmaxLogit}`);
  const isPossible = Number.isFinite(runnerUpLogit) || (vocabSize === 1 && runnerUpLogit === Number.NEGATIVE_INFINITY);
  if (!isPossible || runnerUpLogit > argmaxLogit) {
    fail(`${where}: the runner-up logit is ${runnerUpLogit}, the largest ${argmaxLogit}`);
  }
  if (!logits) return;
  const best = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
  expectEqual(argmax, best, `${where}: arg-max`);
  expectEqualBits(Float32Array.of(argmaxLogit), logits.slice(best, best + 1), `${where}: logit of the arg-max`);
  const others = logits.filter((_, token) => token !== best);
  const runnerUp = others.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  expectEqualBits(Float32Array.of(runnerUpLogit), Float32Array.of(runnerUp), `${where}: runner-up logit`);
}

/** Feeds tokens first..end of a sequence in chunks and returns the answers of all its rows. */
export async function feed(
  backend: Backend,
  schedule: 'fast' | 'canonical',
  sequence: { readonly tokens: readonly number[]; readonly blocks: readonly number[] },
  options: { first?: number; end?: number; chunk?: () => number; want?: Want } = {},
): Promise<RowAnswer[]> {
  const { first = 0, end = sequence.tokens.length, chunk = () => backend.info.maxRows, want = 'logits' } = options;
  const answers: RowAnswer[] = [];
  for (let position = first; position < end; ) {
    const rowCount = Math.min(chunk(), end - position);
    const tokens = sequence.tokens.slice(position, position + rowCount);
    const step = await forward(backend, { [schedule]: [{ tokens, position, blocks: sequence.blocks, want }] });
    answers.push(...step[schedule][0]!.filter((answer) => answer !== undefined));
    position += rowCount;
  }
  return answers;
}

/** Each answer must have the bits of the expected one at its position; an answer without logits is compared by its arg-max. */
export function expectEqualAnswers(
  got: readonly (RowAnswer | undefined)[],
  want: readonly RowAnswer[],
  where: string,
): void {
  got.forEach((answer, row) => {
    if (!answer) return;
    const at = `${where}, row ${row}, position ${answer.position}`;
    const expected = want.find(({ position }) => position === answer.position);
    if (!expected) throw new ConformanceFailure(`${at}: there is nothing to compare with`);
    if (answer.logits && expected.logits) expectEqualBits(answer.logits, expected.logits, `${at}: logits`);
    expectEqual(answer.argmax, expected.argmax, `${at}: arg-max`);
    expectEqualBits(Float32Array.of(answer.argmaxLogit), Float32Array.of(expected.argmaxLogit), `${at}: its logit`);
    const runnerUps = [answer, expected].map(({ runnerUpLogit }) => Float32Array.of(runnerUpLogit));
    expectEqualBits(runnerUps[0]!, runnerUps[1]!, `${at}: its runner-up logit`);
  });
}
