import * as vega from 'vega';
import { compile } from 'vega-lite';
import type { Chart } from '../study/scenario.js';
import { TITLE_SIZE } from './chart-layout.js';
import { chartSpec } from './chart-spec.js';
import { escapeHtml } from './html.js';
import { textWidth } from './text-width.js';
import { darkChartRules } from './theme.js';

/** Exported, but absent from the types. */
const vegaText = vega as unknown as {
  readonly textMetrics: { width: (item: { readonly fontSize?: number }, text: string) => number };
};

/** A chart for a page, in the colours of a light one, see {@link darkChartRules}. The same chart has the same bytes everywhere. */
export function inlineSvg(chart: Chart): Promise<string> {
  return draw(chart, 'inline');
}

/** A picture by itself, which knows both kinds of page. */
export function standaloneSvg(chart: Chart): Promise<string> {
  return draw(chart, 'alone');
}

/** Bold text beside ordinary one. */
const BOLD = 1.25;

async function draw(chart: Chart, place: 'inline' | 'alone'): Promise<string> {
  useTextWidth();
  vega.resetSVGDefIds();
  const { spec } = compile(chartSpec(chart, place === 'alone'));
  const view = new vega.View(vega.parse(spec), { renderer: 'none' });
  try {
    return dress(prune(await view.toSVG()), chart, place);
  } finally {
    view.finalize();
  }
}

/** Vega measures by a canvas where one happens to be installed, and guesses widely where none is. */
function useTextWidth(): void {
  vegaText.textMetrics.width = ({ fontSize = 11 }, text) => textWidth(String(text ?? ''), fontSize);
}

/** Takes what draws nothing; gives marks a text for whoever points at them, in place of roles below an image. */
function prune(svg: string): string {
  return svg
    .replace(/<path class="foreground"[^>]*display="none"\/>/g, '')
    .replace(/<path class="background"[^>]* d="M0,0h0v0h0Z"[^>]*\/>/g, '')
    .replace(
      /<(path|rect) aria-label="([^"]*)" role="graphics-symbol"[^>]*? (transform|d)=([^>]*)\/>/g,
      (_, ...parts) => {
        const [tag, label, first, rest] = parts as [string, string, string, string];
        return `<${tag} ${first}=${rest}><title>${label}</title></${tag}>`;
      },
    )
    .replace(/ (role|aria-[a-z]+|pointer-events)="[^"]*"/g, '');
}

function dress(svg: string, { name, title, caption }: Chart, place: 'inline' | 'alone'): string {
  const [, drawn, height] = / width="([\d.]+)" height="([\d.]+)"/.exec(svg)!;
  const width =
    place === 'alone' ? Math.max(Number(drawn), Math.ceil(textWidth(title, TITLE_SIZE) * BOLD) + 16) : Number(drawn);
  const ids = { title: `${name}-title`, caption: `${name}-caption` };
  const size = place === 'alone' ? `width="${width}" height="${height}"` : `style="--width:${width}px"`;
  const style = place === 'alone' ? `<style>@media (prefers-color-scheme: dark){${darkChartRules('svg')}}</style>` : '';
  const head =
    `<svg xmlns="http://www.w3.org/2000/svg" class="chart" ${size} viewBox="0 0 ${width} ${height}" role="img" ` +
    `aria-labelledby="${ids.title} ${ids.caption}"><title id="${ids.title}">${escapeHtml(title)}</title>` +
    `<desc id="${ids.caption}">${escapeHtml(caption)}</desc>${style}`;
  // Ids are those of the page, which has many charts.
  const rest = svg
    .slice(svg.indexOf('>') + 1)
    .replace(/^<rect width="[\d.]+"/, `<rect width="${width}"`)
    .replace(/(id="|url\(#)(clip|gradient_)(\d+)/g, `$1${name}-$2$3`);
  return `${head}${rest}`;
}
