import type { FormatCase } from '../formats.js';
import type { BenchOptions } from '../options.js';
import { type Contender, unlessItFails } from './contender.js';
import { type CrowdOptions, maxPositions } from './crowds.js';
import type { Answerer } from './distinct-answers.js';
import { llamaCpp } from './llama-cpp.js';
import { llamaServerName, startLlamaServer } from './llama-server.js';
import { type NodeLlamaCpp, type NodeLlamaCppOptions, startNodeLlamaCpp, whyNoNodeLlamaCpp } from './node-llama-cpp.js';
import { openStetAnswerers } from './stet-answerers.js';
import { engineContenders, forwardContenders, openStetModels, type StetModels } from './stet-contenders.js';

/** Who is measured. */
export interface Field {
  readonly stet: StetModels;
  readonly node: NodeLlamaCpp | undefined;
  readonly contenders: readonly Contender[];
  /** Who cannot be, and why, by name; it grows. */
  readonly skipped: Map<string, string>;
  close(): Promise<void>;
}

export interface FieldOptions extends Pick<BenchOptions, 'quick' | 'threads' | 'llamaBench' | 'llamaModels'> {
  readonly model: string;
  readonly formats: readonly FormatCase[];
  readonly crowds: CrowdOptions;
}

/** Puts everybody in place who writes tokens at a rate. `quick` leaves out our backend without the engine. */
export async function openField(options: FieldOptions): Promise<Field> {
  const { model, formats, threads, quick } = options;
  const skipped = new Map<string, string>();
  const programs = llamaPrograms(options, skipped);
  const stet = await openStetModels(model, formats, threads);
  for (const { title, reason } of stet.skipped) skip(skipped, `stet ${title}`, reason);
  const node = await openNode(options, skipped);
  const ours = stet.opened.flatMap((one) => [...engineContenders(one), ...(quick ? [] : forwardContenders(one))]);
  return {
    stet,
    node,
    contenders: [...ours, ...(node ? [node] : []), ...programs],
    skipped,
    close: async () => {
      await node?.close();
      for (const { engine } of stet.opened) await engine.close();
    },
  };
}

/** Answers of everybody who can be asked many things at once, one after the other so that one at a time needs memory. */
export async function* answerersOf(
  { stet, node, skipped }: Field,
  { model, threads, llamaServer }: Pick<BenchOptions, 'threads' | 'llamaServer'> & { readonly model: string },
  formats: readonly FormatCase[],
  crowds: CrowdOptions,
): AsyncGenerator<Answerer, void, undefined> {
  for (const format of formats) {
    if (stet.skipped.some(({ title }) => title === format.title)) continue;
    const { answerers, close } = await openStetAnswerers(model, format, threads);
    try {
      yield* answerers;
    } finally {
      await close();
    }
  }
  if (node && !skipped.has(node.name)) yield node;
  if (node) yield* nodeInTurn({ model, threads, positions: maxPositions(crowds), sampling: 'in turn' }, skipped);
  if (llamaServer === undefined) {
    skip(skipped, llamaServerName, 'give --llama-server PROGRAM');
    return;
  }
  const options = { program: llamaServer, model, threads, slotPositions: maxPositions(crowds) };
  const peer = { name: llamaServerName, kind: 'peer' } as const;
  const server = await unlessItFails(peer, () => startLlamaServer(options), skipped, console.error);
  if (!server) return;
  try {
    yield server;
  } finally {
    await server.close();
  }
}

async function* nodeInTurn(
  options: NodeLlamaCppOptions,
  skipped: Map<string, string>,
): AsyncGenerator<Answerer, void, undefined> {
  const peer = { name: 'node-llama-cpp, sampling in turn', kind: 'peer' } as const;
  const node = await unlessItFails(peer, () => startNodeLlamaCpp(options), skipped, console.error);
  if (!node) return;
  try {
    yield node;
  } finally {
    await node.close();
  }
}

function llamaPrograms(
  { model, llamaBench, llamaModels, threads }: FieldOptions,
  skipped: Map<string, string>,
): Contender[] {
  if (llamaBench === undefined) {
    skip(skipped, 'llama.cpp', 'give --llama-bench FOLDER with llama-bench and llama-batched-bench');
    return [];
  }
  const named: (readonly [string, string])[] = [['as is', model], ...llamaModels];
  return named.map(([title, file]) => llamaCpp({ folder: llamaBench, model: file, title, threads }));
}

async function openNode(
  { model, threads, crowds }: FieldOptions,
  skipped: Map<string, string>,
): Promise<NodeLlamaCpp | undefined> {
  const peer = { name: 'node-llama-cpp', kind: 'peer' } as const;
  const missing = whyNoNodeLlamaCpp(model);
  if (missing !== undefined) {
    skip(skipped, peer.name, missing);
    return undefined;
  }
  const options = { model, threads, positions: maxPositions(crowds), sampling: 'as it comes' } as const;
  return unlessItFails(peer, () => startNodeLlamaCpp(options), skipped, console.error);
}

function skip(skipped: Map<string, string>, name: string, reason: string): void {
  skipped.set(name, reason);
  console.error(`SKIPPED ${name}: ${reason}`);
}
