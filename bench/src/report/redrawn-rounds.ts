import { derivedSeed, seededUniform } from '../random.js';
import type { Json, Scenario, Table } from '../study/scenario.js';
import type { Study } from '../study/study.js';
import type { StudyPart } from '../study/study-file.js';

/** How often the rounds of a run are drawn anew. */
export const DRAWS = 64;
/** With fewer rounds nobody knows how far they are apart. */
export const LEAST_ROUNDS = 3;
const ROUND = /\bround (\d+)\b/;

/** The part of a run that a scenario would have told, had it met these rounds. */
export type Redraw = (rounds: ReadonlyMap<number, number>) => readonly Table[];

export interface Redrawable {
  /** Rounds that figures come from: without one that only warms up. */
  readonly rounds: readonly number[];
  readonly redraw: Redraw;
}

/**
 * A run whose rounds can be drawn anew, since a scenario's result is a function of what its units measured and their keys
 * end in their rounds. `undefined` where there are too few rounds, or where today's scenario tells something else of the
 * same measures than the file has.
 */
export function redrawable(part: StudyPart, study: Study, scenario: Scenario | undefined): Redrawable | undefined {
  if (!scenario) return undefined;
  const measures = new Map(Object.entries(part.measures));
  const told = (some: ReadonlyMap<string, Json>) => scenario.result(some, study).tables;
  try {
    if (JSON.stringify(told(measures)) !== JSON.stringify(part.tables)) return undefined;
  } catch {
    return undefined;
  }
  const all = [...new Set([...measures.keys()].flatMap((key) => roundOf(key) ?? []))].sort((a, b) => a - b);
  const rounds = all[0] === 0 && isWarmUp(measures, told, part.tables) ? all.slice(1) : all;
  if (rounds.length < LEAST_ROUNDS) return undefined;
  return { rounds, redraw: (drawn) => told(redrawn(measures, drawn)) };
}

/** Seeded: comparing the same files twice says the same twice. */
export function drawRounds(rounds: readonly number[], draw: number): Map<number, number> {
  const uniform = seededUniform(derivedSeed(1, draw));
  return new Map(rounds.map((round) => [round, rounds[Math.floor(uniform() * rounds.length)]!]));
}

function redrawn(measures: ReadonlyMap<string, Json>, drawn: ReadonlyMap<number, number>): Map<string, Json> {
  return new Map(
    [...measures].map(([key, measure]) => {
      const round = roundOf(key);
      const other = round === undefined ? undefined : drawn.get(round);
      return [key, other === undefined ? measure : (measures.get(key.replace(ROUND, `round ${other}`)) ?? measure)];
    }),
  );
}

/** Round 0 warms up where nothing that is told depends on it. */
function isWarmUp(
  measures: ReadonlyMap<string, Json>,
  told: (some: ReadonlyMap<string, Json>) => readonly Table[],
  tables: readonly Table[],
): boolean {
  try {
    const rest = new Map([...measures].filter(([key]) => roundOf(key) !== 0));
    return JSON.stringify(told(rest)) === JSON.stringify(tables);
  } catch {
    return false;
  }
}

function roundOf(key: string): number | undefined {
  const match = ROUND.exec(key);
  return match ? Number(match[1]) : undefined;
}
