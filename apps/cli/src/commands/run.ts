import { isStetError, StetError } from '@stet/backend';
import type { PackedOutcome } from '@stet/backend-cpu';
import type { EngineInfo, GenerateEvent, GenerateRequest, StetEngine, TokenLogprobText } from '@stet/engine';
import { usesCpuBackend } from '../backend-names.js';
import { onInterrupt } from '../interrupt.js';
import { type EngineChoice, openEngine } from '../open-engine.js';
import { TextOutput } from '../output.js';
import { describePacked } from '../packed-cache.js';
import { EXIT_INTERRUPTED } from '../report-error.js';
import { formatBytes } from '../units.js';

export interface RunOptions extends EngineChoice {
  /** The prompt is a user's message. */
  readonly chat?: boolean;
  readonly system?: string;
  readonly deterministic?: boolean;
  readonly seed?: number;
  readonly temperature: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  readonly repetitionPenalty?: number;
  readonly maxTokens?: number;
  readonly stop?: readonly string[];
  readonly ignoreEos?: boolean;
  /** True where the option has no value. */
  readonly logprobs?: number | true;
  readonly stats?: boolean;
}

/** `stet run`: one prompt or message; its continuation or answer on stdout. */
export async function run(prompt: string, options: RunOptions): Promise<void> {
  const startedMs = performance.now();
  const request = requestOf(prompt, options);
  const interrupt = onInterrupt();
  const reader = new AbortController();
  const signal = AbortSignal.any([interrupt.signal, reader.signal]);
  const output = new TextOutput(process.stdout, () => reader.abort());
  try {
    let packed: PackedOutcome | undefined;
    const onPacked = (outcome: PackedOutcome) => {
      packed = outcome;
    };
    await using engine = await openEngine(options, { sequences: 1, limits: { maxRunning: 1 }, signal, onPacked });
    const stream = engine.generate(request, { signal });
    await print(stream, output, options, { engine, startedMs, packed });
  } catch (error) {
    if (!signal.aborted || !isStetError(error) || error.code !== 'STET_ERR_ABORTED') throw error;
    if (interrupt.signal.aborted) process.exitCode = EXIT_INTERRUPTED;
  } finally {
    if (process.stdout.isTTY && output.isOpen) process.stdout.write('\n');
    interrupt.dispose();
  }
}

function requestOf(prompt: string, options: RunOptions): GenerateRequest {
  const { deterministic, seed, temperature, topK, topP, minP, frequencyPenalty, presencePenalty } = options;
  const { repetitionPenalty, maxTokens, stop, ignoreEos, logprobs } = options;
  const given = {
    ...{ deterministic, seed, temperature, topK, topP, minP, frequencyPenalty, presencePenalty, maxTokens, stop },
    ...{ repetitionPenalty, ignoreEos, logprobs: logprobs === true ? 0 : logprobs },
  };
  const present = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...asked(prompt, options), ...(Object.fromEntries(present) as Partial<GenerateRequest>) };
}

function asked(prompt: string, { chat, system }: RunOptions): Pick<GenerateRequest, 'prompt' | 'messages'> {
  if (chat) {
    const instructions = system === undefined ? [] : [{ role: 'system', content: system }];
    return { messages: [...instructions, { role: 'user', content: prompt }] };
  }
  if (system !== undefined) throw new StetError('STET_ERR_UNSUPPORTED', '--system is an option of --chat alone');
  return { prompt };
}

interface OpenedEngine {
  readonly engine: StetEngine;
  readonly startedMs: number;
  /** Absent where they are not kept. */
  readonly packed: PackedOutcome | undefined;
}

async function print(
  stream: AsyncIterable<GenerateEvent>,
  output: TextOutput,
  options: RunOptions,
  { engine, startedMs, packed }: OpenedEngine,
): Promise<void> {
  const readyMs = performance.now();
  let first: Instant | undefined;
  let seed = 0;
  let hash = '';
  for await (const event of stream) {
    if (event.type === 'accepted') seed = event.seed;
    else if (event.type === 'commit') {
      first ??= { atMs: performance.now(), uptime: process.uptime() };
      hash = event.hash;
      await output.write(event.text);
      printLogprobs(event.logprobs ?? []);
    } else if (event.type === 'done' && options.stats) {
      printStats(statsRows(event, engine.info, { loadMs: readyMs - startedMs, packed, first, seed, hash }));
    }
  }
}

interface Instant {
  readonly atMs: number;
  /** Seconds since the process began. */
  readonly uptime: number;
}

interface RunFigures {
  readonly loadMs: number;
  readonly packed: PackedOutcome | undefined;
  /** When the first token came. */
  readonly first: Instant | undefined;
  readonly seed: number;
  readonly hash: string;
}

function printLogprobs(logprobs: readonly TokenLogprobText[]): void {
  for (const { token, text, logprob, top } of logprobs) {
    const others = top.map((one) => `${JSON.stringify(one.text)} ${one.logprob.toFixed(4)}`).join('  ');
    console.error(`${token}\t${JSON.stringify(text)}\t${logprob.toFixed(6)}${others && `\t${others}`}`);
  }
}

type StatsRow = readonly [name: string, value: string];

function statsRows(
  { usage, stats, receipt, finishReason }: Extract<GenerateEvent, { type: 'done' }>,
  info: EngineInfo,
  { loadMs, packed, first, seed, hash }: RunFigures,
): StatsRow[] {
  const endMs = performance.now();
  const seconds = (endMs - (first?.atMs ?? endMs)) / 1000;
  const rate = usage.completionTokens > 1 && seconds > 0 ? (usage.completionTokens - 1) / seconds : 0;
  const draft: StatsRow[] = info.drafter
    ? [['draft', `${info.drafter}: ${stats.draftedTokens} tokens guessed, ${stats.acceptedTokens} accepted`]]
    : [];
  return [
    ['model', `${info.model} on ${info.backend} (${info.device})`],
    ['tokens', `${usage.promptTokens} prompt, ${usage.completionTokens} output, ended by ${finishReason}`],
    [
      'start',
      `${loadMs.toFixed(0)} ms to load, first token ${(first?.uptime ?? 0).toFixed(2)} s after the process began`,
    ],
    ['memory', memoryRow(info)],
    ...(usesCpuBackend(info.backend) ? [['packed', describePacked(packed)] as StatsRow] : []),
    ['speed', `${rate.toFixed(1)} tokens/s after the first`],
    [
      'verify',
      `${info.policy}: ${stats.windows} windows, ${stats.rollbacks} rollbacks, ${stats.recomputedTokens} tokens recomputed`,
    ],
    ...draft,
    ['seed', `${seed}`],
    ['hash', hash],
    ['fingerprint', info.fingerprint],
    ['guarantee', receipt?.level ?? 'seeded'],
  ];
}

/** What the process held at most, and what of it was asked for. */
function memoryRow({ memory: { weightBytes, kvBytes, scratchBytes } }: EngineInfo): string {
  const peakBytes = process.resourceUsage().maxRSS * 1024;
  const parts = `weights ${formatBytes(weightBytes)}, K/V up to ${formatBytes(kvBytes)}, scratch ${formatBytes(scratchBytes)}`;
  return `${formatBytes(peakBytes)} at the peak (${parts})`;
}

function printStats(rows: readonly StatsRow[]): void {
  process.stderr.write(process.stderr.isTTY ? '\n' : '');
  for (const [name, value] of rows) console.error(`${name.padEnd(12)} ${value}`);
}
