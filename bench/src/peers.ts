import { loadModelPath } from '@stet/model/node';
import { type DeterminismCost, determinismCost, determinismRows } from './determinism.js';
import { type FormatCase, formatCases } from './formats.js';
import { markdownTable } from './models/markdown.js';
import type { BenchOptions } from './options.js';
import { type Contender, takeTurns } from './peers/contender.js';
import { llamaCpp } from './peers/llama-cpp.js';
import { type NodeLlamaCpp, startNodeLlamaCpp, whyNoNodeLlamaCpp } from './peers/node-llama-cpp.js';
import { type Figures, figureRow, figuresOf, type Ratios, ratiosOf } from './peers/report.js';
import { engineName, openStetModels, type StetModels, stetContenders } from './peers/stet-contenders.js';
import { PREFILL_TOKENS, PROMPT_TOKENS, workloadsOf } from './peers/workloads.js';
import { type BenchResult, machineLoad } from './result.js';
import { readText } from './texts.js';

/** Tokens of a decode run, and rounds. */
const SIZES = { quick: { outputTokens: 64, rounds: 3 }, full: { outputTokens: 128, rounds: 9 } } as const;

/** Load of a machine that has other things to do. */
const BUSY = 0.5;

/** Who is measured, and who cannot be. */
interface Field {
  readonly stet: StetModels;
  readonly node: NodeLlamaCpp | undefined;
  readonly contenders: readonly Contender[];
  /** By name. */
  readonly skipped: Readonly<Record<string, string>>;
}

/**
 * Tokens per second of Stet in every format and schedule, through the engine and by the backend alone, against
 * node-llama-cpp on the same file and llama.cpp's own programs on files that are given: one interleaved run, equal threads.
 */
export async function measurePeers(options: BenchOptions): Promise<BenchResult> {
  const { model, quick, threads } = options;
  if (model === undefined) throw new Error('give --model FILE: a .gguf file, which all contenders can read');
  const size = SIZES[quick ? 'quick' : 'full'];
  const rounds = options.rounds ?? size.rounds;
  const { all, own } = await formatCases(model);
  const workloads = workloadsOf(await tokensOf(model), size.outputTokens);
  const loadBefore = machineLoad();
  if (loadBefore > BUSY)
    console.error(`the machine is busy (load ${loadBefore}): threads that spin, as llama.cpp's do, lose most by it`);
  const field = await gather(model, all, options);
  try {
    const rates = await takeTurns(field.contenders, workloads, rounds, console.error);
    const figures = new Map(Array.from(rates, ([name, byName]) => [name, figuresOf(byName)]));
    const costs: DeterminismCost[] = [];
    for (const format of all) {
      const isOpen = field.stet.opened.some(({ title }) => title === format.title);
      if (!isOpen || (quick && format !== own)) continue;
      const outputTokens = quick ? 48 : 96;
      costs.push(await determinismCost({ model, format, threads, rounds, outputTokens, log: console.error }));
    }
    return resultOf({ own, rounds, size, field, figures, costs, loadBefore, options });
  } finally {
    await field.node?.close();
    for (const { engine } of field.stet.opened) await engine.close();
  }
}

async function gather(
  model: string,
  formats: readonly FormatCase[],
  { threads, llamaBench, llamaModels }: BenchOptions,
): Promise<Field> {
  const programs = llamaBench === undefined ? [] : llamaContenders(model, llamaBench, llamaModels, threads);
  const skipped: Record<string, string> = {};
  if (llamaBench === undefined)
    skipped['llama.cpp'] = 'give --llama-bench FOLDER with llama-bench and llama-batched-bench';
  const missing = whyNoNodeLlamaCpp(model);
  if (missing !== undefined) skipped['node-llama-cpp'] = missing;
  const stet = await openStetModels(model, formats, threads);
  for (const { title, reason } of stet.skipped) skipped[`stet ${title}`] = reason;
  for (const [name, reason] of Object.entries(skipped)) console.error(`SKIPPED ${name}: ${reason}`);
  const node = missing === undefined ? await startNodeLlamaCpp(model, threads) : undefined;
  const contenders = [...stet.opened.flatMap(stetContenders), ...(node ? [node] : []), ...programs];
  return { stet, node, contenders, skipped };
}

function llamaContenders(
  model: string,
  folder: string,
  files: ReadonlyMap<string, string>,
  threads: number,
): Contender[] {
  const named: (readonly [string, string])[] = [['as is', model], ...files];
  return named.map(([title, file]) => llamaCpp({ folder, model: file, title, threads }));
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
  readonly costs: readonly DeterminismCost[];
  readonly loadBefore: number;
  readonly options: BenchOptions;
}

function resultOf({ own, rounds, size, field, figures, costs, loadBefore, options }: Found): BenchResult {
  const rows = Array.from(figures, ([name, found]) => figureRow(name, found));
  const tables = [
    markdownTable(rows),
    markdownTable(ratioRows(field, figures)),
    markdownTable(costs.flatMap(determinismRows)),
  ];
  const against = field.node && figures.get(field.node.name);
  const ours = figures.get(engineName(own.title, 'fast'));
  const { info } = (field.stet.opened.find(({ title }) => title === own.title) ?? field.stet.opened[0]!).engine;
  return {
    workload:
      `prefill of ${PREFILL_TOKENS} tokens up to the next token; 1, 8 and 16 greedy streams of ${size.outputTokens} tokens after ` +
      `prompts of ${PROMPT_TOKENS}; ${options.threads} threads each; median (best) tokens/s of ${rounds} interleaved rounds`,
    model: info.model,
    fingerprint: info.fingerprint,
    device: info.device,
    rows,
    tables,
    json: {
      ...(against &&
        ours && { ratio: ratiosOf(ours, against), of: engineName(own.title, 'fast'), against: field.node?.name }),
      ratios: allRatios(field, figures),
      figures: Object.fromEntries(figures),
      deterministic: costs,
      skipped: field.skipped,
      model: info.model,
      loadBefore,
      threads: options.threads,
      rounds,
      device: info.device,
      ...(field.node && { nodeLlamaCpp: field.node.device }),
    },
  };
}

/** Each of our contenders against each peer. */
function allRatios(
  { stet, node }: Field,
  figures: ReadonlyMap<string, Figures>,
): Record<string, Record<string, Ratios>> {
  const isOurs = (name: string): boolean =>
    stet.opened.some((one) => stetContenders(one).some((ours) => ours.name === name));
  const peers = [...figures.keys()].filter((name) => name === node?.name || !isOurs(name));
  const ours = [...figures.keys()].filter(isOurs);
  return Object.fromEntries(
    ours.map((name) => [
      name,
      Object.fromEntries(peers.map((peer) => [peer, ratiosOf(figures.get(name)!, figures.get(peer)!)])),
    ]),
  );
}

function ratioRows(field: Field, figures: ReadonlyMap<string, Figures>) {
  return Object.entries(allRatios(field, figures)).flatMap(([ours, byPeer]) =>
    Object.entries(byPeer).map(([against, ratios]) => ({ ours, against, ...ratios })),
  );
}
