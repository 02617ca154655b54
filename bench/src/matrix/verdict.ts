import { rounded } from '../stats.js';
import { type MatrixBackend, matrixBackends } from './backend-names.js';
import { type Cell, isEqual } from './cells.js';
import { compareAnswers } from './compare.js';
import { scheduleWords } from './schedule.js';
import { backendsOf, hasEqualTokens, isAnswer, ofRows } from './tables.js';

const MAX_LISTED = 8;

/** In sentences, the most important one first. */
export function findingsOf(cells: readonly Cell[]): string[] {
  return [
    canonicalFinding(cells),
    ...rollbackFinding(cells),
    ...fastFinding(cells),
    ...companyFindings(cells),
    ...missingFindings(cells),
  ];
}

/** Deterministic requests whose answers are not the baseline's, or that got none. */
export function failureOf(cells: readonly Cell[]): string | undefined {
  const bad = cells.filter(
    (cell) =>
      cell.kind === 'failed' || (cell.kind === 'compared' && cell.schedule.rows === 'canonical' && !isEqual(cell)),
  );
  if (bad.length === 0) return undefined;
  const lines = bad
    .slice(0, MAX_LISTED)
    .map((cell) => `${cell.backend}, ${scheduleWords(cell.schedule)}: ${why(cell)}`);
  return [...lines, ...(bad.length > MAX_LISTED ? [`and ${bad.length - MAX_LISTED} more`] : [])].join('\n');
}

function why(cell: Cell): string {
  if (cell.kind === 'failed') return cell.error;
  if (cell.kind !== 'compared') return cell.kind;
  const { firstDifference, values } = cell.comparison;
  if (!firstDifference || !values)
    return `fingerprint ${cell.answers.fingerprint}, that of the baseline is ${cell.baseline.fingerprint}`;
  const { request, token } = firstDifference;
  return `request ${request}, token ${token}: ${values[1]}, in the baseline ${values[0]}`;
}

function canonicalFinding(cells: readonly Cell[]): string {
  const canonical = ofRows(cells, 'canonical').filter(isAnswer);
  const compared = canonical.filter(({ kind }) => kind === 'compared');
  const [baseline] = canonical.filter(({ kind }) => kind === 'baseline');
  if (!baseline) return 'No backend gave an answer under the fixed order.';
  if (compared.length === 0) return `Nothing could be compared: only ${baseline.backend} is there.`;
  const equal = compared.filter(isEqual).length;
  const names = backendsOf(compared);
  const places = `${names.length} ${names.length === 1 ? 'backend' : 'backends'} (${names.join(', ')})`;
  return equal === compared.length
    ? `Deterministic answers are those of ${baseline.backend} in every token and every bit of their log-probabilities: ` +
        `${equal} of ${compared.length} runs on ${places}.`
    : `Deterministic answers differ from those of ${baseline.backend} in ${compared.length - equal} of ${compared.length} runs on ${places}.`;
}

function rollbackFinding(cells: readonly Cell[]): string[] {
  const windows = ofRows(cells, 'canonical')
    .filter(isAnswer)
    .filter(({ schedule }) => schedule.policy !== 'direct');
  if (windows.length === 0) return [];
  const rollbacks = windows.reduce((sum, { answers }) => sum + answers.rollbacks, 0);
  return [
    `Verification rolled ${rollbacks} ${rollbacks === 1 ? 'window' : 'windows'} back in the ${windows.length} runs that may decode before they verify.`,
  ];
}

function fastFinding(cells: readonly Cell[]): string[] {
  const fast = ofRows(cells, 'fast').filter(isAnswer);
  if (fast.length === 0) return [];
  const tokens = fast.filter(hasEqualTokens).length;
  const gaps = fast.flatMap((cell) =>
    cell.kind === 'compared' && !cell.comparison.equalTokens && cell.comparison.gap !== null
      ? [cell.comparison.gap]
      : [],
  );
  const where =
    gaps.length === 0
      ? ''
      : ` Where they first had another one, the likeliest two log-probabilities were at least ${rounded(Math.min(...gaps), 4)} ` +
        `and at most ${rounded(Math.max(...gaps), 4)} apart.`;
  return [
    `Ordinary answers had the tokens of deterministic ones in ${tokens} of ${fast.length} runs, and all their bits in ` +
      `${fast.filter(isEqual).length}.${where}`,
  ];
}

/** Whether ordinary answers depend on who shares the batch: each backend against itself. */
function companyFindings(cells: readonly Cell[]): string[] {
  const fast = ofRows(cells, 'fast').filter(isAnswer);
  const told = backendsOf(fast).map((backend) => ({ backend, ...companyOf(fast, backend) }));
  const compared = told.filter(({ runs }) => runs > 0);
  const dependent = compared.filter(({ bits }) => bits > 0);
  if (compared.length === 0) return [];
  if (dependent.length === 0)
    return [`On ${list(compared)}, ordinary answers too were the same in every batch, bit for bit.`];
  return [
    ...dependent.map(
      ({ backend, runs, tokens, bits }) =>
        `On ${backend}, ordinary answers in company were others than alone: in bits in ${bits} of ${runs} runs, in tokens in ${tokens}.`,
    ),
    ...(dependent.length < compared.length
      ? [`On ${list(compared.filter(({ bits }) => bits === 0))}, they did not depend on the batch.`]
      : []),
  ];
}

function companyOf(fast: readonly Cell[], backend: MatrixBackend) {
  const own = fast.filter((cell) => cell.backend === backend).filter(isAnswer);
  const found = { runs: 0, tokens: 0, bits: 0 };
  for (const cell of own) {
    const { format, batch } = cell.schedule;
    const alone = own.find(({ schedule }) => schedule.format === format && schedule.batch === 1);
    if (batch === 1 || !alone) continue;
    const { equalTokens, equalLogprobs } = compareAnswers(alone.answers, cell.answers);
    found.runs++;
    if (!equalTokens) found.tokens++;
    if (!equalLogprobs) found.bits++;
  }
  return found;
}

/** Backends that are not there at all, and single runs that a backend could not do. */
function missingFindings(cells: readonly Cell[]): string[] {
  return matrixBackends.flatMap((backend) => {
    const own = cells.filter((cell) => cell.backend === backend);
    const skipped = own.filter((cell): cell is Extract<Cell, { kind: 'skipped' }> => cell.kind === 'skipped');
    if (skipped.length === 0) return [];
    const reasons = [...new Set(skipped.map(({ reason }) => reason))].join('; ');
    const what = skipped.length === own.length ? 'was skipped' : `skipped ${skipped.length} of ${own.length} runs`;
    return [`${backend} ${what}: ${reasons}.`];
  });
}

function list(told: readonly { readonly backend: MatrixBackend }[]): string {
  return told.map(({ backend }) => backend).join(', ');
}
