import type { Table } from '../study/scenario.js';
import { fullFigure } from './figures.js';
import { type Html, html } from './html.js';

/** Rows beyond which a table scrolls by itself. */
const TALL = 16;
/** Characters of words that stay in one line. */
const SHORT = 28;

export function tableHtml({ title, rows }: Table): Html {
  const [first = {}] = rows;
  const columns = Object.keys(first);
  const isNumber = (column: string) => rows.every((row) => typeof row[column] === 'number' || row[column] === null);
  const numeric = new Set(columns.filter(isNumber));
  const isShort = (column: string) => rows.every((row) => cellText(row[column]).length <= SHORT);
  const className = (column: string) => (numeric.has(column) ? 'number' : isShort(column) ? 'short' : undefined);
  const heads = columns.map((column) => html`<th scope="col"${classOf(className(column))}>${column}</th>`);
  const body = rows.map((row) => {
    const cells = columns.map((column, index) => {
      const text = cellText(row[column]);
      return index === 0 && !numeric.has(column)
        ? html`<th scope="row"${classOf(className(column))}>${text}</th>`
        : html`<td${classOf(className(column))}>${text}</td>`;
    });
    return html`<tr>${cells}</tr>`;
  });
  return html`<h3>${title}</h3>
<div class="scroll${rows.length > TALL && ' tall'}" tabindex="0" role="region" aria-label="${title}">
<table>
<thead><tr>${heads}</tr></thead>
<tbody>
${body}
</tbody>
</table>
</div>`;
}

export function cellText(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  return typeof value === 'number' ? fullFigure(value) : value;
}

function classOf(name: string | undefined): Html | undefined {
  return name === undefined ? undefined : html` class="${name}"`;
}
