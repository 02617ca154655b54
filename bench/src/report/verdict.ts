import type { PaperComparison } from '../study/scenario.js';
import { shortFigure } from './figures.js';

export type Verdict = 'better' | 'alike' | 'worse' | 'unknown';

/** Ratios that are nearer to each other are alike. */
const ALIKE = 0.02;

export const verdictRule =
  'Alike: within the range that the paper gives, or no further from it than 2 %. Anything beyond is better or worse.';

export interface Judgement {
  readonly verdict: Verdict;
  /** The verdict and by how much. */
  readonly words: string;
}

/** Our ratio against the paper's, or against the nearer end of what it gives as a range. */
export function judge({ theirs, ours, better }: PaperComparison): Judgement {
  // JSON has no NaN: a figure that nothing was measured for comes back as null.
  if (typeof ours !== 'number' || !Number.isFinite(ours)) return { verdict: 'unknown', words: 'not measured here' };
  const [least, most] = rangeOf(theirs);
  const nearest = Math.min(most, Math.max(least, ours));
  if (Math.abs(ours - nearest) <= ALIKE * Math.abs(nearest)) return { verdict: 'alike', words: 'alike' };
  const verdict = ours > nearest === (better === 'higher') ? 'better' : 'worse';
  return { verdict, words: `${verdict}${extent(ours, nearest)}` };
}

export function rangeOf(theirs: PaperComparison['theirs']): readonly [least: number, most: number] {
  return typeof theirs === 'number' ? [theirs, theirs] : theirs;
}

export function theirWords({ theirs }: PaperComparison): string {
  return typeof theirs === 'number' ? shortFigure(theirs) : theirs.map(shortFigure).join(' to ');
}

export function ourWords({ ours }: PaperComparison): string {
  return typeof ours === 'number' && Number.isFinite(ours) ? shortFigure(ours) : '–';
}

/** How far apart two figures are; nothing where there is no ratio of them. */
function extent(ours: number, theirs: number): string {
  if (ours <= 0 || theirs <= 0) return '';
  const factor = Math.max(ours / theirs, theirs / ours);
  return factor < 2 ? ` by ${Math.round(Math.abs(ours / theirs - 1) * 100)} %` : `, ${shortFigure(factor)} times`;
}
