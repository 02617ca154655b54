import type { StudyContext } from './context.js';
import type { Study } from './study.js';

/** What a unit measured: JSON, since it is kept in a file until the run is complete. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** The smallest piece of a run. Units run one after the other; what is compared takes turns in them. */
export interface Unit<M extends Json = Json> {
  /** Names it in its scenario, and what it measured in the results: the same for the same study, so that an interrupted run goes on. */
  readonly key: string;
  /** About how many seconds it takes on two cores: what the time left is reckoned by. */
  readonly seconds: number;
  run(context: StudyContext): Promise<M>;
}

/** A question, how it is measured and what the answer looks like. */
export interface Scenario<M extends Json = Json> {
  /** `npm run bench -- NAME`. */
  readonly name: string;
  readonly title: string;
  /** What is asked, in one sentence. */
  readonly question: string;
  /** The figure of the paper that asks it; absent where the paper does not. */
  readonly paperFigure?: string;
  /** What there is to do, in order. Rejects with a `StetError` for a study that it cannot be done in. */
  units(study: Study): readonly Unit<M>[] | Promise<readonly Unit<M>[]>;
  /** `measures` has every unit's, by key. A pure function: the report is made anew from a file of results. */
  result(measures: ReadonlyMap<string, M>, study: Study): ScenarioResult;
}

export type Row = Readonly<Record<string, string | number>>;

export interface ScenarioResult {
  /** All that is needed to do it again elsewhere. */
  readonly workload: string;
  /** What was found, in sentences with figures, the most important one first. */
  readonly findings: readonly string[];
  readonly tables: readonly Table[];
  readonly charts: readonly Chart[];
  /** Beside what the paper published, as ratios. */
  readonly comparisons?: readonly PaperComparison[];
  /** The last line of `--json` where the scenario runs alone; all of it otherwise. */
  readonly json?: Json;
  /** What was not as it must be; the program then ends with 1. */
  readonly failure?: string;
}

export interface Table {
  readonly title: string;
  /** Columns are those of the first row. */
  readonly rows: readonly Row[];
}

/** A chart of lines, points or bars; one picture of the report. */
export interface Chart {
  /** Its file is NAME.svg: lower case, hyphens. */
  readonly name: string;
  readonly title: string;
  /** How to read it. */
  readonly caption: string;
  readonly kind: 'line' | 'bar' | 'point' | 'step' | 'heat';
  /** Long form: one row for each mark. */
  readonly rows: readonly Row[];
  readonly x: Axis;
  readonly y: Axis;
  /** The column whose values have colours; in a heat map the column that colours and labels cells. */
  readonly color?: { readonly field: string; readonly title: string };
  /** A column; one small chart for each of its values. */
  readonly facet?: { readonly field: string; readonly title: string };
  /** A horizontal line to compare with, e.g. 1 for ratios. */
  readonly rule?: { readonly y: number; readonly label: string };
}

export interface Axis {
  readonly field: string;
  readonly title: string;
  readonly type: 'quantitative' | 'ordinal' | 'nominal';
  readonly scale?: 'linear' | 'log';
  /** By default a quantitative axis of a bar begins at 0 and others fit the values. */
  readonly domain?: readonly [number, number];
}

/** One ratio of the paper beside ours. */
export interface PaperComparison {
  /** What is compared, e.g. `throughput at 10 % deterministic over none`. */
  readonly what: string;
  /** Where it stands, and on what it was measured: `SOSP, figure 10, ShareGPT, Llama-3.1-8B on H100`. */
  readonly source: string;
  readonly theirs: number | readonly [least: number, most: number];
  readonly ours: number;
  readonly better: 'higher' | 'lower';
  /** Why the two are not alike, where that matters. */
  readonly note?: string;
}

/**
 * `rounds` of all cases, in every round from another case on, so that drift of the machine meets all alike. Round 0 warms up;
 * give `warmUp` where some of the cases do that for all.
 */
export function interleaved<C, M extends Json>(
  cases: readonly C[],
  rounds: number,
  unit: (one: C, round: number) => Unit<M>,
  warmUp: readonly C[] = cases,
): Unit<M>[] {
  const turns = Array.from({ length: rounds }, (_, i) =>
    cases.map((_one, turn) => unit(cases[(i + 1 + turn) % cases.length]!, i + 1)),
  );
  return [...warmUp.map((one) => unit(one, 0)), ...turns.flat()];
}
