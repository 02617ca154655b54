import type { StudyFile } from '../study/study-file.js';
import type { CellChange, ScenarioChange, StudyComparison, TableChange } from './compare-studies.js';
import { changeWords, movedLines, tell } from './compare-words.js';
import { type Html, html } from './html.js';
import { page } from './page.js';
import { caution, titleOf } from './report-page.js';
import { cautionsOf } from './run-facts.js';

/** Two runs of one study beside each other, as a page by itself. */
export function comparePage(a: StudyFile, b: StudyFile, comparison: StudyComparison): string {
  const { circumstances, rule, scenarios, onlyA, onlyB } = comparison;
  const moved = movedLines(comparison);
  const header = html`<p class="kicker"><span class="stet">Stet</span> bench, two ${a.study.size} studies</p>
<h1>What changed: ${a.model.name} on ${a.study.backend}</h1>
<p class="note">A is of ${a.date.slice(0, 10)}, B of ${b.date.slice(0, 10)}; every ratio is B over A.</p>
${[...new Map([a, b].flatMap(cautionsOf).map((one) => [one.title, one])).values()].map(caution)}`;
  const contents = html`<main>
<section id="moved">
<h2>${moved.length === 0 ? 'Nothing moved' : `What moved: ${moved.length}`}</h2>
<p class="note">${rule}</p>
${moved.length > 0 && html`<ul class="findings">${moved.map((line) => html`<li>${line}</li>`)}</ul>`}
</section>
<section id="circumstances">
<h2>Where and when</h2>
${
  circumstances.length === 0
    ? html`<p class="note">Nothing about the two runs differs.</p>`
    : differencesTable(circumstances)
}
${only('A', onlyA)}
${only('B', onlyB)}
</section>
${scenarios.map(scenarioSection)}
</main>`;
  return page(`Compared: ${titleOf(a)}`, header, contents);
}

function differencesTable(all: StudyComparison['circumstances']): Html {
  const rows = all.map(({ what, a, b }) => html`<tr><th scope="row">${what}</th><td>${a}</td><td>${b}</td></tr>`);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Where and when"><table>
<thead><tr><th scope="col"></th><th scope="col">A</th><th scope="col">B</th></tr></thead>
<tbody>
${rows}
</tbody></table></div>`;
}

function only(name: string, titles: readonly string[]): Html | undefined {
  return titles.length === 0 ? undefined : html`<p class="note">Only in ${name}: ${titles.join('; ')}.</p>`;
}

function scenarioSection({ name, title, spread, tables }: ScenarioChange): Html {
  return html`<section id="${name}">
<h2>${title}</h2>
${spread === 'unknown' && html`<p class="note">How far its rounds are apart is unknown.</p>`}
${tables.map(tableHtml)}
</section>`;
}

function tableHtml({ title, rows, onlyA, onlyB }: TableChange): Html {
  const columns = rows[0]?.cells.map(({ column }) => column) ?? [];
  return html`<h3>${title}</h3>
<div class="scroll" tabindex="0" role="region" aria-label="${title}"><table>
<thead><tr><th scope="col">row</th>${columns.map((column) => html`<th scope="col" class="number">${column}</th>`)}</tr></thead>
<tbody>
${rows.map(({ key, cells }) => html`<tr><th scope="row">${key}</th>${cells.map(cellHtml)}</tr>`)}
</tbody></table></div>
${only('A', onlyA)}
${only('B', onlyB)}`;
}

function cellHtml(cell: CellChange): Html {
  const { a, b, ratio, range, mark } = cell;
  const spread = range && `; redrawn rounds: ${range.map((end) => end.toFixed(2)).join(' to ')}`;
  const from =
    (ratio !== undefined || a === b) && html`<small>${a === b ? tell(a) : `${tell(a)} → ${tell(b)}`}</small>`;
  return html`<td class="number change"${spread !== undefined && html` title="${tell(a)} → ${tell(b)}${spread}"`}>
<span${mark !== 'still' && html` class="moved"`}>${changeWords(cell)}</span>${from}</td>`;
}
