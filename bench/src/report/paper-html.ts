import type { PaperComparison } from '../study/scenario.js';
import type { StudyFile, StudyPart } from '../study/study-file.js';
import { shortFigure } from './figures.js';
import { type Html, html, prose } from './html.js';
import { summary } from './paper-page.js';
import { judge, ourWords, rangeOf, theirWords, type Verdict, verdictRule } from './verdict.js';

const MARKS: Readonly<Record<Verdict, string>> = { better: '▲', worse: '▼', alike: '=', unknown: '–' };

/** Every comparison with the paper, or nothing where there is none. */
export function paperSection({ scenarios }: StudyFile): Html | undefined {
  const parts = scenarios.filter(({ comparisons = [] }) => comparisons.length > 0);
  if (parts.length === 0) return undefined;
  return html`<section id="paper">
<h2>Beside the paper</h2>
<p class="question">LLM-42 published these ratios for its own system on GPUs. ${countVerdicts(scenarios)}</p>
<p class="note">Each is a ratio within one run: theirs of their run, ours of this one. ${verdictRule}
In the drawings the ring or bar is theirs and the dot is ours, on a scale that begins at 0.</p>
${parts.map(comparisonTable)}
</section>`;
}

export function countVerdicts(scenarios: readonly StudyPart[]): string {
  const verdicts = scenarios.flatMap(({ comparisons = [] }) => comparisons.map((one) => judge(one).verdict));
  const count = (verdict: Verdict) => verdicts.filter((one) => one === verdict).length;
  return summary(count('better'), count('worse'), count('alike'));
}

function comparisonTable({ name, title, comparisons = [] }: StudyPart): Html {
  return html`<h3><a href="#${name}">${title}</a></h3>
<div class="scroll" tabindex="0" role="region" aria-label="${title} beside the paper">
<table class="paper">
<thead><tr><th scope="col" class="what">what</th><th scope="col" class="number theirs">theirs</th><th scope="col" class="number ours">ours</th>
<th scope="col" class="drawn">drawn</th><th scope="col">verdict</th></tr></thead>
<tbody>
${comparisons.map(comparisonRow)}
</tbody>
</table>
</div>`;
}

function comparisonRow(one: PaperComparison): Html {
  const { verdict, words } = judge(one);
  return html`<tr><th scope="row">${one.what}<small>${one.better} is better. ${one.source}${one.note !== undefined && html`. Note: ${prose(one.note)}`}</small></th>
<td class="number" data-label="theirs">${theirWords(one)}</td><td class="number" data-label="ours">${ourWords(one)}</td><td>${dumbbell(one)}</td>
<td class="verdict ${verdict}"><span aria-hidden="true">${MARKS[verdict]}</span> ${words}</td></tr>`;
}

const DRAWN = { width: 144, height: 20, inset: 8 };

/** Theirs and ours on one line from 0 to the larger of them. */
function dumbbell(one: PaperComparison): Html | undefined {
  const { verdict } = judge(one);
  if (verdict === 'unknown') return undefined;
  const { width, height, inset } = DRAWN;
  const [least, most] = rangeOf(one.theirs);
  const largest = Math.max(most, one.ours, Number.MIN_VALUE);
  const x = (value: number) => (inset + (Math.max(0, value) / largest) * (width - 2 * inset)).toFixed(1);
  const y = height / 2;
  const theirs =
    least === most
      ? html`<circle class="theirs" cx="${x(most)}" cy="${y}" r="4.5"/>`
      : html`<line class="range" x1="${x(least)}" x2="${x(most)}" y1="${y}" y2="${y}"/>`;
  const nearest = Math.min(most, Math.max(least, one.ours));
  return html`<svg class="dumbbell ${verdict}" viewBox="0 0 ${width} ${height}" role="img" aria-label="theirs ${theirWords(one)}, ours ${shortFigure(one.ours)}">
<line class="track" x1="${inset}" x2="${width - inset}" y1="${y}" y2="${y}"/>
<line class="gap" x1="${x(nearest)}" x2="${x(one.ours)}" y1="${y}" y2="${y}"/>${theirs}
<circle class="ours" cx="${x(one.ours)}" cy="${y}" r="4"/></svg>`;
}
