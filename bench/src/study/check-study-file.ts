import type { Chart } from './scenario.js';

/** Says what is wrong with a value that should be a file of results, or `undefined` where nothing is. */
export function whatIsWrong(value: unknown): string | undefined {
  try {
    checkStudyFile(value);
    return undefined;
  } catch (error) {
    if (error instanceof Wrong) return error.message;
    throw error;
  }
}

class Wrong extends Error {}

/** Throws what is wrong at `path`. */
type Check = (value: unknown, path: string) => void;

const text = typed('a text', (value) => typeof value === 'string');
const number = typed('a number', (value) => typeof value === 'number');
/** JSON has no infinity and no NaN, and has null in their place. */
const figure = typed('a number', (value) => typeof value === 'number' || value === null);
const cell = typed(
  'a text or a number',
  (value) => typeof value === 'string' || typeof value === 'number' || value === null,
);
const anything: Check = () => {};

const rows = list(record(cell));
const axis = fields({ field: text, title: text, type: oneOf('quantitative', 'ordinal', 'nominal') });
const column = fields({ field: text, title: text });

const chartFields = fields(
  {
    ...{ name: matching(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'lower case with hyphens'), title: text, caption: text },
    ...{ kind: oneOf('line', 'bar', 'point', 'step', 'heat'), rows, x: axis, y: axis },
  },
  { color: column, facet: column, rule: fields({ y: number, label: text }) },
);

const comparison = fields(
  { what: text, source: text, theirs: theirs, ours: figure, better: oneOf('higher', 'lower') },
  { note: text },
);

const part = fields(
  {
    ...{ name: text, title: text, question: text, workload: text, findings: list(text) },
    ...{ tables: list(fields({ title: text, rows })), charts: list(chart), measures: record(anything) },
  },
  { paperFigure: text, comparisons: list(comparison), failure: text },
);

const study = fields(
  { size: oneOf('quick', 'full'), model: text, backend: text, fast: text, threads: number, seed: number },
  { rounds: number, qps: list(number), dataset: text },
);

const checkFields = fields({
  ...{ date: text, study, device: text, loadBefore: number, elapsedSeconds: number },
  model: fields({ name: text, fingerprint: text, contextLength: number, parameterCount: number }),
  machine: fields({ cpu: text, cores: number, memoryGiB: number, os: text }),
  versions: record(text),
  scenarios: list(part),
});

function checkStudyFile(value: unknown): void {
  checkFields(value, '');
}

function typed(what: string, holds: (value: unknown) => boolean): Check {
  return (value, path) => {
    if (!holds(value)) throw new Wrong(`${path} is not ${what}`);
  };
}

function oneOf(...values: readonly string[]): Check {
  return typed(`one of ${values.join(', ')}`, (value) => values.includes(value as string));
}

function matching(pattern: RegExp, what: string): Check {
  return typed(what, (value) => typeof value === 'string' && pattern.test(value));
}

function chart(value: unknown, path: string): void {
  chartFields(value, path);
  const { x, y, color, facet, rows } = value as Chart;
  for (const { field } of [x, y, color, facet].filter((one) => one !== undefined))
    if (rows.some((row) => !(field in row))) throw new Wrong(`${path}.rows lack ${field}`);
}

function theirs(value: unknown, path: string): void {
  if (!Array.isArray(value)) number(value, path);
  else if (value.length === 2) list(number)(value, path);
  else throw new Wrong(`${path} is not a number or two`);
}

function list(check: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) throw new Wrong(`${path} is not a list`);
    for (const [index, one] of value.entries()) check(one, `${path}[${index}]`);
  };
}

function record(check: Check): Check {
  return (value, path) => {
    for (const [name, one] of Object.entries(objectAt(value, path))) check(one, `${path}.${name}`);
  };
}

function fields(needed: Readonly<Record<string, Check>>, optional: Readonly<Record<string, Check>> = {}): Check {
  return (value, path) => {
    const object = objectAt(value, path);
    const at = (name: string) => (path === '' ? name : `${path}.${name}`);
    for (const [name, check] of Object.entries(needed)) check(object[name], at(name));
    for (const [name, check] of Object.entries(optional)) if (object[name] !== undefined) check(object[name], at(name));
  };
}

function objectAt(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Wrong(`${path === '' ? 'it' : path} is not an object`);
  return value as Readonly<Record<string, unknown>>;
}
