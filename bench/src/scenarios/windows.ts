import { defaultLimits } from '@stet/engine';
import {
  type DeterministicMeasure,
  deterministicLoop,
  differingAnswers,
  rollbackShares,
} from '../deterministic-loop.js';
import { median, rounded } from '../stats.js';
import type { StudyContext } from '../study/context.js';
import {
  type Chart,
  interleaved,
  type PaperComparison,
  type Scenario,
  type ScenarioResult,
} from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';

const STREAMS = 16;
const PROMPT_TOKENS = 16;
const OUTPUT_TOKENS = { quick: 128, full: 192 };
const ROUNDS = { quick: 2, full: 4 };
const WINDOWS = { quick: [4, 16, 64], full: [4, 8, 16, 32, 64] };
const GROUPS = { quick: [1, 4, 16], full: [1, 2, 4, 8, 16] };
const BLOCK_SIZE = 16;
const DEFAULT_ROWS = defaultLimits.maxRows;
/** A window is due when it is full, however long that takes. */
const MAX_HOLD_MS = 3_600_000;

interface Cell {
  /** Candidates that make a window due. */
  readonly window: number;
  /** Full windows that fit into one pass. */
  readonly group: number;
}

export const windows: Scenario<DeterministicMeasure> = {
  name: 'windows',
  title: 'Windows and groups',
  question: 'How much is computed in vain, and how fast is it, by the size of windows and how many share a pass?',
  paperFigure: 'SOSP, figure 13',
  units: (study) =>
    // No round is for warming up: every stream begins with an answer that does not count.
    interleaved(cellsOf(study), roundsOf(study) - 1, (cell, round) => ({
      key: cellKey(cell, round),
      seconds: sized(study, { quick: 1.5, full: 2 }),
      run: (context) => measure(context, cell, round),
    })),
  result,
};

function roundsOf(study: Study): number {
  return study.rounds ?? sized(study, ROUNDS);
}

function cellsOf(study: Study): Cell[] {
  return sized(study, WINDOWS).flatMap((window) => sized(study, GROUPS).map((group) => ({ window, group })));
}

/** A window's rows are its candidates and the token before them. */
function rowsOf({ window, group }: Cell): number {
  return group * (window + 1);
}

function cellKey({ window, group }: Cell, round: number): string {
  return `window ${window}, group ${group}, round ${round}`;
}

async function measure(context: StudyContext, cell: Cell, round: number): Promise<DeterministicMeasure> {
  const { model, study } = context;
  const outputTokens = Math.min(sized(study, OUTPUT_TOKENS), Math.floor(model.contextLength / 2));
  const positions = PROMPT_TOKENS + outputTokens + 1;
  const engine = await context.engine({
    policy: { dvr: { windowTokens: cell.window, maxHoldMs: MAX_HOLD_MS } },
    limits: { maxCanonicalRows: rowsOf(cell), maxRows: Math.max(rowsOf(cell), DEFAULT_ROWS) },
    kv: { blockSize: BLOCK_SIZE, blockCount: STREAMS * Math.ceil(positions / BLOCK_SIZE) },
  });
  const seed = study.seed + round;
  return deterministicLoop(engine, { model, streams: STREAMS, promptTokens: PROMPT_TOKENS, outputTokens, seed });
}

interface Figure extends Cell {
  readonly perThousand: number;
  readonly recomputed: number;
  readonly tokensPerSecond: number;
  /** Over that of the quickest cell. */
  readonly relative: number;
}

function result(measures: ReadonlyMap<string, DeterministicMeasure>, study: Study): ScenarioResult {
  const cells = cellsOf(study);
  const rounds = Array.from({ length: roundsOf(study) }, (_, round) =>
    cells.map((cell) => measures.get(cellKey(cell, round))!),
  );
  const figures = figuresOf(cells, rounds);
  const answers = rounds.flat().reduce((sum, { outputHashes }) => sum + outputHashes.length, 0);
  const differing = rounds.reduce((sum, [first, ...others]) => sum + differingAnswers(first!, others), 0);
  const tokens = rounds[0]![0]!.outputTokens / STREAMS;
  return {
    workload:
      `closed loop of ${STREAMS} deterministic streams (half greedy, half sampled), ${PROMPT_TOKENS} tokens in and ${tokens} out, ` +
      `policy dvr, fast schedule ${study.fast}; ${rounds.length} interleaved rounds; a group bounds the rows of the canonical batch of a step`,
    findings: findingsOf(figures, differing, answers),
    tables: [
      {
        title: 'By window and group',
        rows: figures.map(({ window, group, perThousand, recomputed, tokensPerSecond, relative }) => ({
          window,
          group,
          'rollbacks per 1000 tokens': rounded(perThousand, 3),
          'recomputed, % of output': rounded(100 * recomputed, 3),
          'tokens/s': Math.round(tokensPerSecond),
          'of the quickest': rounded(relative, 3),
        })),
      },
    ],
    charts: [
      heat('windows-recomputed', 'Tokens that were computed in vain, % of the output', figures, ({ recomputed }) =>
        rounded(100 * recomputed, 2),
      ),
      heat('windows-throughput', 'Throughput, of the quickest', figures, ({ relative }) => rounded(relative, 2)),
    ],
    comparisons: comparisonsOf(figures, differing / answers),
    ...(differing > 0 && {
      failure: `${differing} of ${answers} answers depend on the window or the group`,
    }),
  };
}

function figuresOf(cells: readonly Cell[], rounds: readonly (readonly DeterministicMeasure[])[]): Figure[] {
  const rates = cells.map((_cell, i) => {
    // Of the round's mean, since the machine may be slower in one round than in another.
    const shares = rounds.map((round) => {
      const mean = round.reduce((sum, { tokensPerSecond }) => sum + tokensPerSecond, 0) / round.length;
      return round[i]!.tokensPerSecond / mean;
    });
    return median(shares);
  });
  const best = Math.max(...rates);
  return cells.map((cell, i) => {
    const own = rounds.map((round) => round[i]!);
    const tokensPerSecond = median(own.map((one) => one.tokensPerSecond));
    return { ...cell, ...rollbackShares(own), tokensPerSecond, relative: rates[i]! / best };
  });
}

function findingsOf(figures: readonly Figure[], differing: number, answers: number): string[] {
  const by = (value: (figure: Figure) => number) => figures.toSorted((a, b) => value(a) - value(b));
  const [slowest, quickest] = [by(({ relative }) => relative)[0]!, by(({ relative }) => -relative)[0]!];
  const [least, most] = [by(({ recomputed }) => recomputed)[0]!, by(({ recomputed }) => -recomputed)[0]!];
  const named = ({ window, group }: Cell) => `windows of ${window} in groups of ${group}`;
  return [
    `Quickest are ${named(quickest)}; slowest, with ${rounded(slowest.relative, 2)} of that, ${named(slowest)}.`,
    most.recomputed === 0
      ? 'No verification rolled anything back: on this fast schedule nothing was computed in vain, whatever the window.'
      : `Between ${percent(least.recomputed)} (${named(least)}) and ${percent(most.recomputed)} (${named(most)}) of the output ` +
        'was computed in vain.',
    `${answers - differing} of ${answers} answers are the same, bit for bit, in all ${figures.length} combinations of window and group.`,
  ];
}

function heat(name: string, title: string, figures: readonly Figure[], value: (figure: Figure) => number): Chart {
  return {
    name,
    title,
    caption: 'Up to so many windows share a pass.',
    kind: 'heat',
    // Axes are in the order of rows; the largest group, which has every window, is at the top.
    rows: figures
      .toSorted((a, b) => b.group - a.group || a.window - b.window)
      .map((figure) => ({ window: figure.window, group: figure.group, value: value(figure) })),
    x: { field: 'window', title: 'window, tokens', type: 'ordinal' },
    y: { field: 'group', title: 'windows in a pass', type: 'ordinal' },
    color: { field: 'value', title },
  };
}

/** Of each window: the paper's least and most over all groups, 8B and 70B. */
const THEIR_RECOMPUTED = new Map<number, readonly [number, number]>([
  [16, [0.0272, 0.0405]],
  [32, [0.0595, 0.0823]],
  [64, [0.1243, 0.1655]],
]);

function comparisonsOf(figures: readonly Figure[], shareDiffering: number): PaperComparison[] {
  const source =
    'SOSP, figure 13, Llama-3.1-8B and Llama-3.3-70B on H100, ShareGPT at 8 requests per second, all deterministic';
  const at = (window: number) => figures.filter((figure) => figure.window === window);
  const ones = at(16).filter(({ group }) => group === 1);
  return [
    ...[...THEIR_RECOMPUTED]
      .filter(([window]) => at(window).length > 0)
      .map(
        ([window, theirs]): PaperComparison => ({
          what: `recomputed tokens over output with windows of ${window}, the worst group`,
          source,
          theirs,
          ours: rounded(Math.max(...at(window).map(({ recomputed }) => recomputed)), 5),
          better: 'lower',
          note: 'it follows from how often the fast schedule differs from the canonical one, on this model and device',
        }),
      ),
    ...ones.map(
      ({ relative }): PaperComparison => ({
        what: 'throughput of single windows of 16 over the quickest combination',
        source,
        theirs: [0.12, 0.16],
        ours: rounded(relative, 3),
        better: 'higher',
        note: 'their passes stop all decoding, ours share steps with it; and a GPU wants many rows in a pass more than a CPU does',
      }),
    ),
    {
      what: 'share of answers that depend on the window or group',
      source:
        "llm-42's repository, bench_online_multi_step_size: 90 requests, windows of 32 and 64 against 128 and 256",
      theirs: 0.544,
      ours: shareDiffering,
      better: 'lower',
      note: 'a row of ours has the same bits in a pass of any shape; theirs promise equal answers for one setting of the server',
    },
  ];
}

function percent(share: number): string {
  return `${rounded(100 * share, 2)} %`;
}
