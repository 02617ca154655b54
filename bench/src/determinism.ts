import { createCpuBackend } from '@stet/backend-cpu';
import { createEngine, type EngineInfo, type StetEngine } from '@stet/engine';
import { loadModelPath } from '@stet/model/node';
import { runClosedLoop } from './closed-loop.js';
import type { FormatCase } from './formats.js';
import { median, rounded } from './stats.js';
import { readText } from './texts.js';
import { ELEVEN, elevenStreams } from './workloads/eleven-streams.js';

const CASES = {
  none: { policy: 'auto', deterministic: 0 },
  '1 of 11': { policy: 'auto', deterministic: 1 },
  all: { policy: 'auto', deterministic: ELEVEN },
  'all, canonical rows alone': { policy: 'direct', deterministic: ELEVEN },
} as const;
type CaseName = keyof typeof CASES;

/** Tokens per second of all streams together, and what deterministic ones cost. */
export interface DeterminismCost {
  readonly format: string;
  readonly tokensPerSecond: Readonly<Record<CaseName, { readonly median: number; readonly best: number }>>;
  /** Share of the rate without deterministic requests that one of eleven takes, in per cent. */
  readonly costOfOnePercent: number;
  /** Rate of all deterministic requests under `auto`, over that of canonical rows alone. */
  readonly allOverCanonical: number;
}

interface CostOptions {
  readonly model: string;
  readonly format: FormatCase;
  readonly threads: number;
  readonly rounds: number;
  readonly outputTokens: number;
  readonly log: (line: string) => void;
}

export function determinismRows({ format, tokensPerSecond }: DeterminismCost) {
  const base = tokensPerSecond.none.median;
  return Object.entries(tokensPerSecond).map(([deterministic, { median, best }]) => ({
    format,
    deterministic,
    'tokens/s, all streams': Math.round(median),
    best: Math.round(best),
    'of none': rounded(median / base, 3),
  }));
}

/** All cases take turns, in every round from another one on. */
export async function determinismCost(
  options: CostOptions,
): Promise<DeterminismCost & Pick<EngineInfo, 'model' | 'fingerprint' | 'device'>> {
  const { model, format, threads, rounds, outputTokens, log } = options;
  const tokens = await promptTokens(model);
  const engines: Record<'auto' | 'direct', StetEngine> = {
    auto: await openEngine(model, format, threads, 'auto'),
    direct: await openEngine(model, format, threads, 'direct'),
  };
  const names = Object.keys(CASES) as CaseName[];
  const rates = new Map(names.map((name) => [name, [] as number[]]));
  try {
    for (let round = 0; round <= rounds; round++) {
      log(
        round === 0
          ? `${format.title}, deterministic requests: warming up`
          : `${format.title}, deterministic requests: round ${round} of ${rounds}`,
      );
      for (let turn = 0; turn < names.length; turn++) {
        const name = names[(round + turn) % names.length]!;
        const { policy, deterministic } = CASES[name];
        const streams = elevenStreams(tokens, { deterministic, outputTokens });
        const { tokensPerSecond } = await runClosedLoop(engines[policy], streams, 2);
        if (round > 0) rates.get(name)!.push(tokensPerSecond);
      }
    }
    const { model: name, fingerprint, device } = engines.auto.info;
    return { ...costOf(format.title, rates), model: name, fingerprint, device };
  } finally {
    for (const engine of Object.values(engines)) await engine.close();
  }
}

export function costOf(format: string, rates: ReadonlyMap<CaseName, readonly number[]>): DeterminismCost {
  const figure = (name: CaseName) => {
    const rounds = rates.get(name) ?? [];
    return { median: rounded(median(rounds), 1), best: rounded(Math.max(...rounds), 1) };
  };
  const tokensPerSecond = {
    none: figure('none'),
    '1 of 11': figure('1 of 11'),
    all: figure('all'),
    'all, canonical rows alone': figure('all, canonical rows alone'),
  };
  return {
    format,
    tokensPerSecond,
    costOfOnePercent: rounded(100 * (1 - tokensPerSecond['1 of 11'].median / tokensPerSecond.none.median), 1),
    allOverCanonical: rounded(tokensPerSecond.all.median / tokensPerSecond['all, canonical rows alone'].median, 3),
  };
}

async function promptTokens(path: string): Promise<number[]> {
  const model = await loadModelPath(path);
  try {
    return model.tokenizer!.encode(readText('prose'), { addSpecialTokens: false });
  } finally {
    await model.close();
  }
}

function openEngine(
  model: string,
  { format }: FormatCase,
  threads: number,
  policy: 'auto' | 'direct',
): Promise<StetEngine> {
  // Prompts come again in every round; nothing of them may be left.
  return createEngine({ model, format, backend: createCpuBackend({ threads }), policy, prefixCache: 'off' });
}
