/** A colour on a light and on a dark page. */
export interface Colour {
  readonly light: string;
  readonly dark: string;
}

/** What carries text and lines. Every light value is there once, since charts are recoloured by it. */
export const colours = {
  paper: { light: '#fbfaf6', dark: '#171614' },
  sheet: { light: '#ffffff', dark: '#1f1e1b' },
  ink: { light: '#1d1b18', dark: '#efece5' },
  soft: { light: '#625d55', dark: '#aaa498' },
  line: { light: '#dcd7cc', dark: '#37342e' },
  accent: { light: '#1f5d4c', dark: '#7cc4ab' },
  good: { light: '#1e5d4c', dark: '#7cc4aa' },
  bad: { light: '#a8321f', dark: '#f08a76' },
  note: { light: '#f6efdd', dark: '#2f2918' },
  failure: { light: '#fbeeeb', dark: '#33211e' },
} as const satisfies Record<string, Colour>;

/** Of series, in order; told apart by dashes and shapes as well. */
export const seriesColours: readonly Colour[] = [
  { light: '#1f5d4b', dark: '#7cc4a9' },
  { light: '#c2512f', dark: '#f0936b' },
  { light: '#2f5fa8', dark: '#86b4f2' },
  { light: '#94660a', dark: '#e2b552' },
  { light: '#7a3f8f', dark: '#cda3e4' },
  { light: '#177588', dark: '#6fd0e0' },
  { light: '#a8326b', dark: '#f29bc0' },
  { light: '#6b665d', dark: '#b3ada1' },
];

/** Of cells, from the least figure to the largest. */
export const heatColours: readonly Colour[] = [
  { light: '#eef3ee', dark: '#26302b' },
  { light: '#cfe3d8', dark: '#2c443b' },
  { light: '#a3cdb9', dark: '#356251' },
  { light: '#38795f', dark: '#5ca286' },
  { light: '#1f5c4b', dark: '#86d0b5' },
];

/** Of cells that have words in place of figures, in order. */
export const wordColours: readonly Colour[] = [
  { light: '#dcebe3', dark: '#24443a' },
  { light: '#f6d9d0', dark: '#5a2d22' },
  { light: '#dbe5f4', dark: '#263a57' },
  { light: '#f3e6c4', dark: '#4d3d15' },
  { light: '#e8dcee', dark: '#432f4c' },
];

/** Text on cells: on the first three colours, and on the rest. */
export const heatText: { readonly low: Colour; readonly high: Colour } = {
  low: { light: '#1d1b17', dark: '#efece6' },
  high: { light: '#fffffe', dark: '#10211b' },
};

export const sansFont = 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
export const serifFont = 'ui-serif, "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif';
export const monoFont = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace';

/** Rules that give the marks of charts below `scope` their colours on a dark page; without them they have those of a light one. */
export function darkChartRules(scope: string): string {
  const all = [...Object.values(colours), ...seriesColours, ...heatColours, ...wordColours, ...Object.values(heatText)];
  return all
    .flatMap(({ light, dark }) =>
      ['fill', 'stroke'].map((property) => `${scope} [${property}="${light}"]{${property}:${dark}}`),
    )
    .join('\n');
}
