import { isStetError, type StetErrorCode } from '@stet/backend';
import type { RopeConfig } from '@stet/model';
import {
  type InspectReport,
  inspectModel,
  type LoadReport,
  type ShapeReport,
  type SpecialToken,
  withPacked,
} from '../inspect-report.js';
import { onInterrupt } from '../interrupt.js';
import { loadingLine } from '../loading-line.js';
import { openModel } from '../open-engine.js';
import { EXIT_INTERRUPTED } from '../report-error.js';
import { formatBytes } from '../units.js';

export interface InspectOptions {
  readonly json?: boolean;
  /** Print the whole chat template. */
  readonly template?: boolean;
}

/** `stet inspect`: what a model is, without running it. */
export async function inspect(path: string, { json, template }: InspectOptions): Promise<void> {
  const interrupt = onInterrupt();
  try {
    const report = await examine(path, interrupt.signal);
    if (json) console.log(JSON.stringify(report));
    else console.log(describe(report, template ? Number.POSITIVE_INFINITY : TEMPLATE_LINES).join('\n'));
  } catch (error) {
    if (!interrupt.signal.aborted || !isStetError(error) || error.code !== 'STET_ERR_ABORTED') throw error;
    process.exitCode = EXIT_INTERRUPTED;
  } finally {
    interrupt.dispose();
  }
}

/** A model whose text cannot be read still has sizes; the report says what is wrong with the text. */
async function examine(path: string, signal: AbortSignal): Promise<InspectReport> {
  const line = loadingLine(process.stderr);
  const open = async (tokenizer: 'required' | 'none'): Promise<InspectReport> => {
    const choice = { model: path, format: 'auto' } as const;
    const model = await openModel(choice, { tokenizer, signal, onProgress: line.onProgress });
    try {
      return await withPacked(inspectModel(model), model);
    } finally {
      await model.close();
    }
  };
  try {
    return await open('required').catch(async (error: unknown) => {
      if (!isStetError(error) || !TEXT_ERRORS.has(error.code)) throw error;
      return { ...(await open('none')), tokenizerProblem: `${error.code}: ${error.message}` };
    });
  } finally {
    line.end();
  }
}

const TEXT_ERRORS: ReadonlySet<StetErrorCode> = new Set(['STET_ERR_BAD_TOKENIZER', 'STET_ERR_BAD_CHAT_TEMPLATE']);

/** Lines of a chat template that are shown without `--template`, and how much of each. */
const TEMPLATE_LINES = 4;
const TEMPLATE_COLUMNS = 100;
/** Most files that are listed. */
const MAX_FILES = 8;
const POSITIONS = 1000;

function describe(report: InspectReport, templateLines: number): string[] {
  const { name, architecture, parameterCount, shape, rope, storage, tokenizer, digest, auto, formats } = report;
  const rows: [string, string][] = [
    ['model', name],
    ['architecture', `${architecture}, ${formatCount(parameterCount)} parameters`],
    ['layers', `${shape.layerCount}, hidden ${shape.hiddenSize}, feed-forward ${shape.feedForwardSize}`],
    ['attention', `${shape.headCount} heads over ${shape.kvHeadCount} of keys and values, of ${shape.headSize} each`],
    ['windows', describeWindows(shape)],
    ['rope', describeRope(rope, shape)],
    ['context', `${shape.contextLength} positions`],
    [
      'vocabulary',
      `${shape.vocabSize} tokens, ${shape.head === 'tied' ? 'the embedding is the head' : 'a head of its own'}`,
    ],
    ['files', `${formatBytes(storage.bytes)} in ${counted(storage.files.length, 'file')}: ${listed(storage.files)}`],
    ...storage.tensorTypes.map(({ type, tensorCount, bytes }): [string, string] => [
      `  ${type}`,
      `${counted(tensorCount, 'tensor')}, ${formatBytes(bytes)}`,
    ]),
    [
      'tokenizer',
      tokenizer ? `${tokenizer.kind}, ${tokenizer.vocabSize} tokens` : `unusable (${report.tokenizerProblem})`,
    ],
    ...(tokenizer?.bos ? [['  begin', describeToken(tokenizer.bos)] as [string, string]] : []),
    ...(tokenizer ? [['  end', tokenizer.eos.map(describeToken).join(', ') || 'none'] as [string, string]] : []),
    ...(tokenizer ? describeTemplates(report.chatTemplates, templateLines) : []),
    ['sampling', describeDefaults(report.generationDefaults)],
    ...auto.uses.map(({ format, matrixCount, why }, i): [string, string] => [
      i === 0 ? 'formats' : '',
      `${format} for ${counted(matrixCount, 'matrix', 'matrices')}: ${why}`,
    ]),
    ...describeLoad('auto', auto),
    ...formats.flatMap((report) => describeLoad(report.format, report)),
    ['digest', digest],
  ];
  return rows.map(([label, value]) => `${label.padEnd(15)}${value}`.trimEnd());
}

function describeLoad(
  format: string,
  { weightBytes, kvBytesPerPosition, fingerprint, packed }: LoadReport,
): [string, string][] {
  const kv = `${formatBytes(kvBytesPerPosition * POSITIONS)} of K/V for ${POSITIONS} positions`;
  return [
    [`memory ${format}`, `${formatBytes(weightBytes)} of weights, ${kv}`],
    ['  fingerprint', fingerprint],
    ...(packed ? [['  packed', `${formatBytes(packed.bytes)} in ${packed.path}`] as [string, string]] : []),
  ];
}

function describeWindows({ windows, layerCount }: ShapeReport): string {
  if (windows.length === 0) return 'none, every layer sees the whole context';
  const parts = windows.map(
    (window) => `${window.windowSize} positions in ${window.layerCount} of ${layerCount} layers`,
  );
  return parts.join(', ');
}

function describeRope({ type, theta, ...rest }: RopeConfig, { layersWithoutRope, layerCount }: ShapeReport): string {
  const parameters = Object.entries(rest).map(([name, value]) =>
    Array.isArray(value) ? `${value.length} ${name}` : `${name} ${value}`,
  );
  const without = layersWithoutRope > 0 ? [`none in ${layersWithoutRope} of ${layerCount} layers`] : [];
  return [type, `base ${theta}`, ...parameters, ...without].join(', ');
}

function describeTemplates(templates: Readonly<Record<string, string>>, maxLines: number): [string, string][] {
  const entries = Object.entries(templates);
  if (entries.length === 0) return [['chat template', 'none: the model was not made for messages']];
  return entries.flatMap(([name, source]): [string, string][] => {
    const lines = source.split('\n');
    const shown = lines.slice(0, maxLines).map((line) => (maxLines === TEMPLATE_LINES ? cut(line) : line));
    const title = `${name}, ${source.length} characters${shown.length < lines.length ? '; --template shows all' : ''}`;
    return [['chat template', title], ...shown.map((line): [string, string] => ['', line])];
  });
}

function cut(line: string): string {
  return line.length > TEMPLATE_COLUMNS ? `${line.slice(0, TEMPLATE_COLUMNS)}…` : line;
}

function describeDefaults(defaults: InspectReport['generationDefaults']): string {
  const parts = Object.entries(defaults).map(([name, value]) => `${name} ${value}`);
  return parts.length === 0 ? 'no recommendation' : `${parts.join(', ')} (recommended; not used by itself)`;
}

function describeToken({ id, text }: SpecialToken): string {
  return `${id} ${JSON.stringify(text)}`;
}

function listed(files: readonly string[]): string {
  const more = files.length > MAX_FILES ? ` and ${files.length - MAX_FILES} more` : '';
  return `${files.slice(0, MAX_FILES).join(', ')}${more}`;
}

function counted(count: number, what: string, many = `${what}s`): string {
  return `${count} ${count === 1 ? what : many}`;
}

/** `134.5 M`. */
function formatCount(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} G`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} M` : `${count}`;
}
