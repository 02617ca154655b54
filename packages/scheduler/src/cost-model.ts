import type { StepOutcome } from './policy.js';

/** A forward of so many rows of one schedule took so long. */
export interface CostPoint {
  readonly schedule: 'fast' | 'canonical';
  readonly rows: number;
  readonly elapsedMs: number;
}

/** Times are kept at 1, 2, 4, … 4096 rows. */
const KNOTS = 13;
/** Weight of a new measurement. */
const LEARNING_RATE = 0.1;

/**
 * How long a step of given rows takes: a table of times at powers of two for each schedule, linear between them, and
 * one factor for steps that have both batches, which may share a read of the weights. Measured at start, corrected by
 * every step.
 */
export class CostModel {
  private readonly tables: { readonly fast: CostTable; readonly canonical: CostTable };
  /** Time of a step with both batches over the sum of its parts. */
  private shared = 1;

  constructor(calibration: readonly CostPoint[] = []) {
    const of = (schedule: CostPoint['schedule']) =>
      new CostTable(calibration.filter((point) => point.schedule === schedule));
    this.tables = { fast: of('fast'), canonical: of('canonical') };
  }

  /** Expected milliseconds. */
  stepMs(fastRows: number, canonicalRows: number): number {
    const fast = this.tables.fast.at(fastRows);
    const canonical = this.tables.canonical.at(canonicalRows);
    return fastRows > 0 && canonicalRows > 0 ? (fast + canonical) * this.shared : fast + canonical;
  }

  observe({ fastRows, canonicalRows, elapsedMs }: Pick<StepOutcome, 'fastRows' | 'canonicalRows' | 'elapsedMs'>): void {
    if (!(elapsedMs > 0)) return;
    if (fastRows > 0 && canonicalRows > 0) {
      const ratio = elapsedMs / (this.tables.fast.at(fastRows) + this.tables.canonical.at(canonicalRows));
      this.shared += LEARNING_RATE * (Math.min(2, Math.max(0.25, ratio)) - this.shared);
    } else if (fastRows > 0) {
      this.tables.fast.learn(fastRows, elapsedMs);
    } else if (canonicalRows > 0) {
      this.tables.canonical.learn(canonicalRows, elapsedMs);
    }
  }
}

/** Times by number of rows. Before any measurement a pass costs as much as 16 rows, and a row one unit. */
class CostTable {
  private readonly knots: Float64Array;

  constructor(points: readonly CostPoint[]) {
    const sorted = [...points].sort((a, b) => a.rows - b.rows);
    this.knots = Float64Array.from({ length: KNOTS }, (_, i) => interpolate(sorted, 2 ** i));
  }

  at(rows: number): number {
    if (rows <= 0) return 0;
    const { low, share } = place(rows);
    return this.knots[low]! * (1 - share) + this.knots[low + 1]! * share;
  }

  learn(rows: number, elapsedMs: number): void {
    const { low, share } = place(rows);
    // One hiccup of the machine must not change the picture.
    const error = Math.min(1, Math.max(-0.5, elapsedMs / this.at(rows) - 1));
    this.knots[low]! *= 1 + LEARNING_RATE * error * (1 - share);
    this.knots[low + 1]! *= 1 + LEARNING_RATE * error * share;
  }
}

/** On the line through the two measured points around or nearest to `rows`; with fewer, a pass costs as much as 16 rows. */
function interpolate(points: readonly CostPoint[], rows: number): number {
  if (points.length < 2) {
    const [only] = points;
    return only ? (only.elapsedMs * (16 + rows)) / (16 + only.rows) : 1 + rows / 16;
  }
  const after = points.findIndex((point) => point.rows >= rows);
  const high = after < 0 ? points.length - 1 : Math.max(1, after);
  const [left, right] = [points[high - 1]!, points[high]!];
  const slope = Math.max(0, right.elapsedMs - left.elapsedMs) / (right.rows - left.rows);
  return Math.max(left.elapsedMs / 16, left.elapsedMs + slope * (rows - left.rows));
}

/** The knot at or below, and how far towards the next. Past the last two, their line goes on. */
function place(rows: number): { low: number; share: number } {
  let low = 0;
  while (low < KNOTS - 2 && 2 ** (low + 1) <= rows) low++;
  return { low, share: (rows - 2 ** low) / 2 ** low };
}
