import { type Comparison, compareAnswers } from './compare.js';
import { type Case, isAlone } from './schedule.js';
import type { Answers } from './work.js';

/** What became of one backend under one schedule. */
export type MatrixMeasure =
  | Answers
  /** The backend is not there, or cannot have the model. */
  | { readonly kind: 'skipped'; readonly reason: string }
  /** It is there, and gave no answers. */
  | { readonly kind: 'failed'; readonly error: string };

export interface MeasuredCase extends Case {
  readonly measure: MatrixMeasure;
}

/** A cell of the matrix with what is to be said of it. */
export type Cell = Case &
  (
    | {
        readonly kind: 'compared';
        readonly answers: Answers;
        readonly baseline: Answers;
        readonly comparison: Comparison;
        /** Whether the fingerprint is the baseline's too. */
        readonly isSameModel: boolean;
      }
    /** What the others of its format are held against. */
    | { readonly kind: 'baseline'; readonly answers: Answers }
    | { readonly kind: 'skipped'; readonly reason: string }
    | { readonly kind: 'failed'; readonly error: string }
  );

/** Holds every cell against the first of its format that answered alone under the fixed order. */
export function judgeCells(measured: readonly MeasuredCase[]): Cell[] {
  const baselines = new Map<string, MeasuredCase>();
  for (const one of measured) {
    const { format } = one.schedule;
    if (one.measure.kind === 'answers' && isAlone(one.schedule) && !baselines.has(format)) baselines.set(format, one);
  }
  return measured.map((one) => judge(one, baselines.get(one.schedule.format)));
}

function judge(one: MeasuredCase, baseline: MeasuredCase | undefined): Cell {
  const { backend, schedule, measure } = one;
  const place: Case = { backend, schedule };
  if (measure.kind !== 'answers') return { ...place, ...measure };
  if (one === baseline) return { ...place, kind: 'baseline', answers: measure };
  if (baseline?.measure.kind !== 'answers')
    return { ...place, kind: 'failed', error: `no backend gave answers in ${schedule.format} to compare with` };
  return {
    ...place,
    kind: 'compared',
    answers: measure,
    baseline: baseline.measure,
    comparison: compareAnswers(baseline.measure, measure),
    isSameModel: measure.fingerprint === baseline.measure.fingerprint,
  };
}

export function isEqual(cell: Cell): boolean {
  switch (cell.kind) {
    case 'baseline':
      return true;
    case 'compared':
      return cell.comparison.equalTokens && cell.comparison.equalLogprobs && cell.isSameModel;
    case 'skipped':
    case 'failed':
      return false;
  }
}
