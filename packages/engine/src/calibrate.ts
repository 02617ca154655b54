import { type Backend, type BackendInfo, type Batch, OUTPUT_ARGMAX, StetError } from '@stet/backend';
import type { CostPoint } from '@stet/scheduler';

export interface CalibrationOptions {
  /** Milliseconds, never going back. */
  readonly clock: () => number;
  /** No forward begins that would probably end later than this. */
  readonly budgetMs: number;
  /** Rows of the largest batch worth knowing; as many as the backend allows by default. */
  readonly maxRows?: number;
  /** Makes it reject with `STET_ERR_ABORTED`, after the forward in flight. */
  readonly signal?: AbortSignal;
}

type Schedule = CostPoint['schedule'];

const SCHEDULES: readonly Schedule[] = ['fast', 'canonical'];
const ROW_COUNTS = [1, 4, 16, 64];
/** Forwards of each kind: by their median, neither a cold first one nor a hiccup counts. */
const REPETITIONS = 3;

/**
 * Times forwards of both schedules on a backend that nobody uses yet: 1, 4, 16 and 64 rows, as many as the budget and
 * the backend allow. Empty where not even single rows fit the budget, or the clock is too coarse to tell. The K/V that
 * it leaves in blocks is overwritten before anybody reads it, as in every block that is given out.
 */
export async function calibrate(backend: Backend, options: CalibrationOptions): Promise<CostPoint[]> {
  const { info } = backend;
  const maxRows = Math.min(info.maxRows, info.blockCount - 1, options.maxRows ?? Number.POSITIVE_INFINITY);
  const deadlineMs = options.clock() + options.budgetMs;
  const points: CostPoint[] = [];
  for (const rows of ROW_COUNTS) {
    if (rows > maxRows) break;
    const level: CostPoint[] = [];
    for (const schedule of SCHEDULES) {
      const expectedMs = expectation(points, schedule, rows);
      const elapsedMs = await medianForward(backend, schedule, rows, expectedMs, deadlineMs, options);
      if (elapsedMs === undefined) return usable(points);
      level.push({ schedule, rows, elapsedMs });
    }
    points.push(...level);
  }
  return usable(points);
}

/** A model that knew one schedule alone would compare milliseconds with nothing. */
function usable(points: readonly CostPoint[]): CostPoint[] {
  const known = points.filter((point) => point.elapsedMs > 0);
  return SCHEDULES.every((schedule) => known.some((point) => point.schedule === schedule)) ? known : [];
}

/** In proportion to the rows, which is more than it will take; nothing is known before the first forward. */
function expectation(points: readonly CostPoint[], schedule: Schedule, rows: number): number {
  const last = points.findLast((point) => point.schedule === schedule);
  return last ? (last.elapsedMs * rows) / last.rows : 0;
}

/** The median of up to three times, as many as the budget allows; undefined where it allows none. */
async function medianForward(
  backend: Backend,
  schedule: Schedule,
  rows: number,
  expectedMs: number,
  deadlineMs: number,
  { clock, signal }: CalibrationOptions,
): Promise<number | undefined> {
  const batch =
    schedule === 'canonical' ? canonicalBatch(backend.info, rows) : singleRows(rows, backend.info.blockSize);
  const times: number[] = [];
  while (times.length < REPETITIONS) {
    const startMs = clock();
    if (startMs + Math.min(expectedMs, ...times) > deadlineMs) break;
    if (signal?.aborted) throw new StetError('STET_ERR_ABORTED', 'creation was aborted', { cause: signal.reason });
    await backend.forward({ [schedule]: batch });
    times.push(clock() - startMs);
  }
  return times.sort((a, b) => a - b)[(times.length - 1) >> 1];
}

/** A fixed shape costs the same for any number of rows: all of it is run, on the scratch block. */
function canonicalBatch({ canonicalShape: shape, blockSize }: BackendInfo, rows: number): Batch {
  if (!shape) return singleRows(rows, blockSize);
  const { sequenceCount, windowTokens } = shape;
  return batchOf({ sequenceCount, rowsEach: windowTokens, blockOf: () => 0 }, blockSize);
}

/** So many sequences of one row, each in a block of its own. */
function singleRows(rows: number, blockSize: number): Batch {
  return batchOf({ sequenceCount: rows, rowsEach: 1, blockOf: (sequence) => sequence + 1 }, blockSize);
}

interface BatchShape {
  readonly sequenceCount: number;
  readonly rowsEach: number;
  readonly blockOf: (sequence: number) => number;
}

/** Sequences at their first position, token 0 throughout. Every row wants its arg-max, as decoding and verifying rows do. */
function batchOf({ sequenceCount, rowsEach, blockOf }: BatchShape, blockSize: number): Batch {
  const rowCount = sequenceCount * rowsEach;
  const blocksEach = Math.ceil(rowsEach / blockSize);
  return {
    tokens: new Int32Array(rowCount),
    positions: Int32Array.from({ length: rowCount }, (_, row) => row % rowsEach),
    rowStarts: Int32Array.from({ length: sequenceCount + 1 }, (_, s) => s * rowsEach),
    blockStarts: Int32Array.from({ length: sequenceCount }, (_, s) => s * blocksEach),
    blocks: Int32Array.from({ length: sequenceCount * blocksEach }, (_, i) => blockOf(Math.floor(i / blocksEach))),
    outputRows: Int32Array.from({ length: rowCount }, (_, row) => row),
    outputKinds: new Uint8Array(rowCount).fill(OUTPUT_ARGMAX),
  };
}
