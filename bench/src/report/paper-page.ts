import type { PaperComparison } from '../study/scenario.js';
import type { StudyFile, StudyPart } from '../study/study-file.js';
import { cautionsOf } from './run-facts.js';
import { judge, ourWords, theirWords, type Verdict, verdictRule } from './verdict.js';

interface Compared extends PaperComparison {
  readonly part: StudyPart;
  /** Which run it is from. */
  readonly run: string;
}

const sections: readonly { readonly verdict: Verdict; readonly title: string; readonly none: string }[] = [
  { verdict: 'better', title: 'Where we are better', none: 'Nowhere.' },
  { verdict: 'worse', title: 'Where we are worse', none: 'Nowhere that was measured.' },
  { verdict: 'alike', title: 'Where we are alike', none: 'Nowhere.' },
];

/** A page in Markdown with all that some runs say beside the paper, the worse as well as the better. Runs are told apart by their device. */
export function paperPage(files: readonly StudyFile[]): string {
  const runs = files.map(runName);
  const all = files.flatMap((file, index) => comparedOf(file, runs[index]!));
  const of = (verdict: Verdict) => all.filter((one) => judge(one).verdict === verdict);
  return [
    '# Stet beside the paper',
    'LLM-42 published these figures for its own system on GPUs. Each is a ratio within one run of theirs, and ours is the same ratio within one run of ours; ' +
      `absolute times and rates are beside each other nowhere, because models and machines differ. ${verdictRule}`,
    summary(of('better').length, of('worse').length, of('alike').length),
    ...runList(files, runs),
    ...sections.flatMap(({ verdict, title, none }) => [`## ${title}`, tableOf(of(verdict), files.length > 1) ?? none]),
    '## What cannot be compared',
    incomparable(files, of('unknown')),
    '',
  ].join('\n\n');
}

/** A count of each verdict, in words. */
export function summary(better: number, worse: number, alike: number): string {
  if (better + worse + alike === 0) return 'Nothing that was run here has a figure in the paper.';
  const counts = [`${better} better`, `${worse} worse`, ...(alike > 0 ? [`${alike} alike`] : [])];
  const all = better + worse + alike;
  return `${all === 1 ? 'One figure' : `${all} figures`} beside theirs: ${counts.join(', ')}.`;
}

function runList(files: readonly StudyFile[], runs: readonly string[]): string[] {
  return [
    files
      .map((file, index) => {
        const { model, study, machine, date } = file;
        const cautions = cautionsOf(file).map(({ title, text }) => `\n  **${title}.** ${text}`);
        return `- *${runs[index]}*: ${model.name} (${model.fingerprint}), ${study.size}, on ${file.device}; ${machine.cpu}, ${date.slice(0, 10)}.${cautions.join('')}`;
      })
      .join('\n'),
  ];
}

function tableOf(rows: readonly Compared[], isMany: boolean): string | undefined {
  if (rows.length === 0) return undefined;
  const head = ['what', ...(isMany ? ['run'] : []), 'theirs', 'ours', 'better is', 'verdict', 'source', 'note'];
  const body = rows.map((row) => [
    `${row.what} (${row.part.name})`,
    ...(isMany ? [row.run] : []),
    theirWords(row),
    ourWords(row),
    row.better,
    judge(row).words,
    row.source,
    row.note ?? '',
  ]);
  return [head, head.map(() => '---'), ...body].map((cells) => `| ${cells.map(escapeCell).join(' | ')} |`).join('\n');
}

function incomparable(files: readonly StudyFile[], unknown: readonly Compared[]): string {
  const lines = new Set<string>();
  for (const { part, run, what, source } of unknown)
    lines.add(`- ${what} (${part.name}, ${run}): not measured in this run. Theirs: ${source}.`);
  for (const { scenarios } of files) {
    for (const { name, title, paperFigure, comparisons = [] } of scenarios) {
      if (comparisons.length > 0) continue;
      const why = paperFigure
        ? `the paper shows it (${paperFigure}), but not as a ratio that another model and machine could have`
        : 'the paper does not ask it';
      lines.add(`- ${title} (${name}): ${why}.`);
    }
  }
  lines.add(
    '- Tokens per second, milliseconds and requests per second by themselves: they are those of a model and a machine.',
  );
  return [...lines].join('\n');
}

function comparedOf({ scenarios }: StudyFile, run: string): Compared[] {
  return scenarios.flatMap((part) => (part.comparisons ?? []).map((one) => ({ ...one, part, run })));
}

function runName({ model, study }: StudyFile): string {
  return `${model.name} on ${study.backend}${study.fast === 'native' ? '' : `, ${study.fast}`}`;
}

function escapeCell(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('|', '\\|').replaceAll('\n', ' ');
}
