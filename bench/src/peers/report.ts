import { median, rounded } from '../stats.js';
import type { Rates } from './contender.js';
import { type WorkloadName, workloadNames } from './workloads.js';

/** Tokens per second of one contender at one workload. */
export interface Figure {
  readonly median: number;
  readonly best: number;
  readonly rounds: readonly number[];
}

export type Figures = Readonly<Record<WorkloadName, Figure>>;
export type Ratios = Readonly<Record<WorkloadName, number>>;

export function figuresOf(rates: Rates): Figures {
  return byWorkload((name) => {
    const rounds = rates.get(name) ?? [];
    return { median: tenth(median(rounds)), best: tenth(Math.max(...rounds)), rounds: rounds.map(tenth) };
  });
}

/** How many times as quick `ours` is, by medians. */
export function ratiosOf(ours: Figures, theirs: Figures): Ratios {
  return byWorkload((name) => rounded(ours[name].median / theirs[name].median, 2));
}

/** One row a contender: median and, in brackets, best. */
export function figureRow(contender: string, figures: Figures): Readonly<Record<string, string>> {
  return {
    contender,
    ...byWorkload((name) => `${Math.round(figures[name].median)} (${Math.round(figures[name].best)})`),
  };
}

export function byWorkload<T>(value: (name: WorkloadName) => T): Readonly<Record<WorkloadName, T>> {
  return Object.fromEntries(workloadNames.map((name) => [name, value(name)])) as Record<WorkloadName, T>;
}

function tenth(value: number): number {
  return rounded(value, 1);
}
