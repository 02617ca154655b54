import type { Chart } from '../study/scenario.js';
import type { StudyFile, StudyPart } from '../study/study-file.js';
import { chartData } from './chart-data.js';
import { inlineSvg } from './chart-svg.js';
import { Html, html, prose } from './html.js';
import { page } from './page.js';
import { countVerdicts, paperSection } from './paper-html.js';
import { type Caution, cautionsOf, duration, factsOf } from './run-facts.js';
import { tableHtml } from './table-html.js';

/** The whole report as one page. */
export async function reportPage(file: StudyFile): Promise<string> {
  const { scenarios } = file;
  const sections: Html[] = [];
  for (const part of scenarios) sections.push(await scenarioSection(part));
  const paper = paperSection(file);
  const contents = html`<div class="page">
<main>
${summarySection(file)}
${sections}
${paper}
${factsSection(file)}
</main>
${contentsList(scenarios, paper !== undefined)}
</div>`;
  return page(titleOf(file), header(file), contents);
}

export function titleOf({ model, study }: StudyFile): string {
  return `Bench report: ${model.name} on ${study.backend}${study.fast === 'native' ? '' : `, ${study.fast}`}`;
}

function header(file: StudyFile): Html {
  const { model, study, device, date, elapsedSeconds } = file;
  return html`<p class="kicker"><span class="stet">Stet</span> bench, ${study.size} study of ${date.slice(0, 10)}</p>
<h1>What determinism costs: ${model.name} on ${study.backend}</h1>
<p class="note">${device}; ${duration(elapsedSeconds)}. <a href="#run">All that was run, and on what</a></p>
${cautionsOf(file).map(caution)}
${file.scenarios.flatMap(({ title, failure }) => (failure === undefined ? [] : [failureHtml(`${title}: ${failure}`)]))}`;
}

export function caution({ title, text }: Caution): Html {
  return html`<div class="callout" role="note"><strong>${title}</strong><p>${text}</p></div>`;
}

function failureHtml(text: string): Html {
  return html`<div class="callout bad" role="alert"><strong>Not as it must be</strong><p>${text}</p></div>`;
}

function summarySection({ scenarios }: StudyFile): Html {
  const first = scenarios.filter(({ findings }) => findings.length > 0);
  const hasPaper = scenarios.some(({ comparisons = [] }) => comparisons.length > 0);
  return html`<section id="summary">
<h2>In short</h2>
<ul class="summary">
${first.map(({ name, title, findings }) => html`<li><a href="#${name}">${title}</a><span>${prose(findings[0]!)}</span></li>`)}
${hasPaper && html`<li><a href="#paper">Beside the paper</a><span>${countVerdicts(scenarios)}</span></li>`}
</ul>
</section>`;
}

async function scenarioSection(part: StudyPart): Promise<Html> {
  const { name, title, question, paperFigure, findings, charts, tables, workload, failure, comparisons = [] } = part;
  const figures: Html[] = [];
  for (const chart of charts) figures.push(await figure(chart));
  const [lead, ...others] = findings;
  return html`<section id="${name}">
<h2>${title}</h2>
<p class="question">${question}${paperFigure !== undefined && ` The paper asks it in ${paperFigure}.`}</p>
${failure !== undefined && failureHtml(failure)}
${lead !== undefined && html`<p class="lead">${prose(lead)}</p>`}
${others.length > 0 && html`<ul class="findings">${others.map((finding) => html`<li>${prose(finding)}</li>`)}</ul>`}
${comparisons.length > 0 && html`<p class="note"><a href="#paper">Beside the paper</a>: ${countVerdicts([part])}</p>`}
${figures}
${tables.map(tableHtml)}
<h3>Workload</h3>
<p class="note">${prose(workload)}</p>
</section>`;
}

async function figure(chart: Chart): Promise<Html> {
  const { undrawnCount } = chartData(chart);
  const undrawn = undrawnCount > 0 && ` Not drawn: ${undrawnCount} figures that the axes have no place for.`;
  return html`<figure>
<h3>${chart.title}</h3>
<figcaption>${prose(chart.caption)}${undrawn}</figcaption>
<div class="scroll" tabindex="0" role="region" aria-label="${chart.title}, drawn">${new Html(await inlineSvg(chart))}</div>
</figure>`;
}

function factsSection(file: StudyFile): Html {
  const facts = factsOf(file).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`);
  return html`<section id="run">
<h2>What was run</h2>
<dl class="facts">
${facts}
</dl>
<p class="note">What is compared took turns in rounds of one run, so that drift of the machine meets all of it alike. Ratios travel; absolute
times and rates are those of this model and machine. All figures are in results.json beside this page.</p>
</section>`;
}

function contentsList(scenarios: readonly StudyPart[], hasPaper: boolean): Html {
  const entries: (readonly [id: string, title: string])[] = [
    ['summary', 'In short'],
    ...scenarios.map(({ name, title }) => [name, title] as const),
    ...(hasPaper ? [['paper', 'Beside the paper'] as const] : []),
    ['run', 'What was run'],
  ];
  return html`<nav aria-label="Contents"><strong>Contents</strong>
<ol>${entries.map(([id, title]) => html`<li><a href="#${id}">${title}</a></li>`)}</ol></nav>`;
}
