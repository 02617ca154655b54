import { loadModelPath } from '@stet/model/node';
import { type DeterminismCost, determinismCost, determinismRows } from './determinism.js';
import { type FormatCase, formatCases } from './formats.js';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import { takeTurns } from './peers/contender.js';
import { type CrowdOptions, crowdsOf } from './peers/crowds.js';
import { type DistinctAnswersFound, distinctAnswersRow, findDistinctAnswers } from './peers/distinct-answers.js';
import { answerersOf, type Field, openField } from './peers/field.js';
import { type Figures, figureRow, figuresOf, type Ratios, ratiosOf } from './peers/report.js';
import { engineName } from './peers/stet-contenders.js';
import { workloadsOf } from './peers/workloads.js';
import { type BenchResult, machineLoad } from './result.js';
import { readText } from './texts.js';

/** Tokens of a decode run and of an answer under load, and rounds. */
const SIZES = {
  quick: { outputTokens: 24, answerTokens: 32, rounds: 2 },
  full: { outputTokens: 128, answerTokens: 128, rounds: 9 },
} as const;

/** Output tokens of a stream, in what deterministic requests cost. */
const COST_TOKENS = 96;

/** Equal requests of everybody, and what else they meet. */
const EQUAL_REQUESTS = 50;
const CROWD_SEED = 9;

/** Load of a machine that has other things to do. */
const BUSY = 0.5;

/**
 * Tokens per second of Stet in every format and schedule, through the engine and by the backend alone, against
 * node-llama-cpp on the same file and llama.cpp's own programs on files that are given: one interleaved run, equal threads. Then
 * how many answers equal requests get while others come and go. `quick` stays with the format that suits the file, beside
 * bf16 in the second half.
 */
export async function measurePeers(options: BenchOptions): Promise<BenchResult> {
  const { model, quick, threads } = options;
  if (model === undefined) throw new Error('give --model FILE: a .gguf file, which all contenders can read');
  const size = SIZES[quick ? 'quick' : 'full'];
  const rounds = options.rounds ?? size.rounds;
  const { all, own } = await formatCases(model);
  const text = await tokensOf(model);
  const workloads = workloadsOf(text, size.outputTokens);
  const crowds: CrowdOptions = { targets: EQUAL_REQUESTS, outputTokens: size.answerTokens, seed: CROWD_SEED };
  const loadBefore = machineLoad();
  if (loadBefore > BUSY)
    console.error(`the machine is busy (load ${loadBefore}): threads that spin, as llama.cpp's do, lose most by it`);
  const field = await openField({ ...options, model, formats: quick ? [own] : all, crowds });
  try {
    const { rates, failed } = await takeTurns(field.contenders, workloads, rounds, console.error);
    for (const [name, reason] of failed) field.skipped.set(name, reason);
    const figures = new Map(Array.from(rates, ([name, byName]) => [name, figuresOf(byName)]));
    const costs = quick ? [] : await costsOf(field, all, { model, threads, rounds });
    const asked = quick ? all.filter((format) => format === own || format.format === 'bf16') : all;
    const answerers = answerersOf(field, { ...options, model }, asked, crowds);
    const answers = await findDistinctAnswers(answerers, crowdsOf(text, crowds), console.error);
    for (const [name, reason] of answers.failed) field.skipped.set(name, reason);
    return resultOf({ own, rounds, size, field, figures, costs, answers, loadBefore, options });
  } finally {
    await field.close();
  }
}

async function costsOf(
  { stet }: Field,
  formats: readonly FormatCase[],
  options: { readonly model: string; readonly threads: number; readonly rounds: number },
): Promise<DeterminismCost[]> {
  const costs: DeterminismCost[] = [];
  for (const format of formats) {
    if (!stet.opened.some(({ title }) => title === format.title)) continue;
    costs.push(await determinismCost({ ...options, format, outputTokens: COST_TOKENS, log: console.error }));
  }
  return costs;
}

async function tokensOf(path: string): Promise<number[]> {
  const model = await loadModelPath(path);
  try {
    return model.tokenizer!.encode(readText('prose'), { addSpecialTokens: false });
  } finally {
    await model.close();
  }
}

interface Found {
  readonly own: FormatCase;
  readonly rounds: number;
  readonly size: (typeof SIZES)[keyof typeof SIZES];
  readonly field: Field;
  readonly figures: ReadonlyMap<string, Figures>;
  /** None of a quick run. */
  readonly costs: readonly DeterminismCost[];
  readonly answers: DistinctAnswersFound;
  readonly loadBefore: number;
  readonly options: BenchOptions;
}

function resultOf({ own, rounds, size, field, figures, costs, answers, loadBefore, options }: Found): BenchResult {
  const rows = Array.from(figures, ([name, found]) => figureRow(name, found));
  const ratios = ratiosByName(field, figures);
  const tables = [rows, ratioRows(ratios), answers.rows.map(distinctAnswersRow), costs.flatMap(determinismRows)];
  const against = field.node && figures.get(field.node.name);
  const ours = figures.get(engineName(own.title, 'fast'));
  const { info } = (field.stet.opened.find(({ title }) => title === own.title) ?? field.stet.opened[0]!).engine;
  return {
    workload:
      `prefill of 512 tokens, and of 1, 4 and 16 prompts of 128, up to the next token; 1, 4, 8 and 16 greedy streams of ` +
      `${size.outputTokens} tokens after prompts of 32; ${options.threads} threads each; median (best) tokens/s of ${rounds} ` +
      `interleaved rounds; ${EQUAL_REQUESTS} equal greedy requests of ${size.answerTokens} tokens among others that come and go`,
    model: info.model,
    fingerprint: info.fingerprint,
    device: info.device,
    rows,
    tables: tables.filter(({ length }) => length > 0).map(markdownTable),
    json: {
      ...(against &&
        ours && { ratio: ratiosOf(ours, against), of: engineName(own.title, 'fast'), against: field.node?.name }),
      ratios: Object.fromEntries(ratios),
      figures: Object.fromEntries(figures),
      distinctAnswers: answers.rows,
      ...(costs.length > 0 && { deterministic: costs }),
      skipped: Object.fromEntries(field.skipped),
      model: info.model,
      loadBefore,
      threads: options.threads,
      rounds,
      seed: CROWD_SEED,
      device: info.device,
      ...(field.node && { nodeLlamaCpp: field.node.device }),
    },
    ...(answers.broken.length > 0 && {
      failure: `equal deterministic requests got different answers: ${answers.broken.join(', ')}`,
    }),
  };
}

/** Each of our contenders against each peer. */
function ratiosByName(
  { contenders }: Field,
  figures: ReadonlyMap<string, Figures>,
): Map<string, Readonly<Record<string, Ratios>>> {
  const measured = contenders.filter(({ name }) => figures.has(name));
  const peers = measured.filter(({ kind }) => kind === 'peer');
  const ours = measured.filter(({ kind }) => kind === 'ours');
  return new Map(
    ours.map(({ name }) => [
      name,
      Object.fromEntries(peers.map((peer) => [peer.name, ratiosOf(figures.get(name)!, figures.get(peer.name)!)])),
    ]),
  );
}

function ratioRows(ratios: ReadonlyMap<string, Readonly<Record<string, Ratios>>>) {
  return Array.from(ratios).flatMap(([ours, byPeer]) =>
    Object.entries(byPeer).map(([against, byWorkload]) => ({ ours, against, ...byWorkload })),
  );
}
