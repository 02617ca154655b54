/** One family of metrics of an exposition. */
export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  /** By name and sorted labels: `name{a="1",b="2"}`. */
  readonly samples: Map<string, number>;
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/;
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
};

/**
 * Reads the text format of Prometheus, and throws for whatever it does not allow: a family without HELP or TYPE, in two
 * pieces or twice, samples of another name, bad labels or numbers, a series twice, a histogram that does not add up.
 */
export function parseExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families = new Map<string, Family>();
  let help: { name: string; help: string } | undefined;
  let current: Family | undefined;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line);
    if (comment?.[1] === 'HELP') {
      if (families.has(comment[2]!)) throw new Error(`${comment[2]} comes twice`);
      help = { name: comment[2]!, help: comment[3]! };
      current = undefined;
    } else if (comment?.[1] === 'TYPE') {
      const [, , name, type] = comment;
      if (help?.name !== name) throw new Error(`TYPE of ${name} without its HELP before`);
      if (SUFFIXES[type!] === undefined) throw new Error(`unknown type ${type}`);
      current = { ...help!, type: type!, samples: new Map() };
      families.set(name!, current);
    } else addSample(line, current);
  }
  for (const family of families.values()) if (family.type === 'histogram') checkHistogram(family);
  return families;
}

function addSample(line: string, family: Family | undefined): void {
  const [, name, labelText, valueText] = SAMPLE.exec(line) ?? [];
  if (name === undefined || family === undefined) throw new Error(`no sample of a family: ${line}`);
  if (!SUFFIXES[family.type]!.some((suffix) => name === family.name + suffix))
    throw new Error(`${name} is no sample of the ${family.type} ${family.name}`);
  const value = valueText === '+Inf' ? Number.POSITIVE_INFINITY : valueText === 'Nan' ? Number.NaN : Number(valueText);
  if (valueText === '' || (Number.isNaN(value) && valueText !== 'NaN' && valueText !== 'Nan'))
    throw new Error(`no number: ${line}`);
  const key = keyOf(name, labelsOf(labelText ?? '', line));
  if (family.samples.has(key)) throw new Error(`${key} comes twice`);
  family.samples.set(key, value);
}

function labelsOf(text: string, line: string): [string, string][] {
  const labels: [string, string][] = [];
  for (let rest = text; rest !== ''; ) {
    const match = LABEL.exec(rest);
    if (match === null) throw new Error(`bad labels: ${line}`);
    if (labels.some(([name]) => name === match[1])) throw new Error(`a label comes twice: ${line}`);
    labels.push([match[1]!, match[2]!]);
    rest = rest.slice(match[0].length);
  }
  return labels;
}

function keyOf(name: string, labels: readonly [string, string][]): string {
  const sorted = labels.map(([label, value]) => `${label}="${value}"`).sort();
  return sorted.length === 0 ? name : `${name}{${sorted.join(',')}}`;
}

/** Buckets rise, the last one is infinite and is the count. */
function checkHistogram({ name, samples }: Family): void {
  const series = new Map<string, { bound: number; count: number }[]>();
  for (const [key, count] of samples) {
    if (!key.startsWith(`${name}_bucket{`)) continue;
    const bound = /le="([^"]+)"/.exec(key)![1]!;
    const rest = key.replace(/,?le="[^"]+"/, '').replace('{,', '{');
    const own = series.get(rest) ?? [];
    series.set(rest, own);
    own.push({ bound: bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound), count });
  }
  for (const [key, buckets] of series) {
    buckets.forEach(({ bound, count }, index) => {
      const before = buckets[index - 1];
      if (before && (bound <= before.bound || count < before.count)) throw new Error(`${key}: buckets do not rise`);
    });
    const counted = samples.get(key.replace('_bucket', '_count').replace('{}', ''));
    const last = buckets.at(-1)!;
    if (last.bound !== Number.POSITIVE_INFINITY || last.count !== counted) throw new Error(`${key}: no such count`);
  }
}
