import { rounded } from '../stats.js';
import type { PaperComparison, Row, Scenario, ScenarioResult } from '../study/scenario.js';
import { type Study, sized } from '../study/study.js';
import { differencesPerThousand, endedShares, type Span, shareCut, spanQuantile } from './spans-compare.js';
import { measureSpans, type SpanKind, type SpanMeasure, spanKinds } from './spans-measure.js';

const CLIENTS = 16;
/** Each asked in every kind: more would not fit among the clients. */
const PROMPTS_AT_ONCE = 4;
const ROUNDS = { quick: 4, full: 10 };
const OUTPUT_TOKENS = { quick: 96, full: 256 };
const QUANTILES = { p10: 0.1, p25: 0.25, p50: 0.5, p75: 0.75 };

export const spans: Scenario<readonly SpanMeasure[]> = {
  name: 'spans',
  title: 'How long an answer stays the same',
  question: 'Without verification, after how many tokens does a request under load get another answer than alone?',
  paperFigure: 'SOSP, figure 6',
  units: (study) =>
    Array.from({ length: roundsOf(study) }, (_, round) => ({
      key: keyOf(round),
      seconds: sized(study, { quick: 2.5, full: 5 }),
      run: (context) =>
        measureSpans(context, {
          firstPrompt: round * PROMPTS_AT_ONCE,
          promptCount: PROMPTS_AT_ONCE,
          // A prompt, an answer and what follows from inside it have to fit.
          outputTokens: Math.min(sized(study, OUTPUT_TOKENS), Math.floor(context.model.contextLength / 4)),
          clients: CLIENTS,
        }),
    })),
  result,
};

function roundsOf(study: Study): number {
  return study.rounds ?? sized(study, ROUNDS);
}

function keyOf(round: number): string {
  return `prompts ${round * PROMPTS_AT_ONCE} to ${(round + 1) * PROMPTS_AT_ONCE - 1}`;
}

interface Figures {
  readonly firsts: readonly Span[];
  /** From the first difference to the next; as a span, so that those without a next one count as longer than all. */
  readonly seconds: readonly Span[];
  readonly corrected: readonly Span[];
  readonly rollbacks: number;
}

function result(measures: ReadonlyMap<string, readonly SpanMeasure[]>, study: Study): ScenarioResult {
  const all = Array.from({ length: roundsOf(study) }, (_, round) => measures.get(keyOf(round))!).flat();
  const figures = spanKinds.map((kind) => ({ kind, ...figuresOf(all.filter((one) => one.kind === kind)) }));
  const greedy = figures.find(({ kind }) => kind === 'greedy')!;
  const ordinary = figuresOf(all.filter(({ kind }) => kind !== 'deterministic'));
  const control = figures.find(({ kind }) => kind === 'deterministic')!;
  const longest = Math.max(
    ...all.map(({ first }) => first.tokens),
    ...all.map(({ corrected }) => corrected?.tokens ?? 0),
  );
  const changed = control.firsts.filter(({ end }) => end === 'difference').length;
  return {
    workload:
      `${all.length} requests of ${longest} tokens, each alone and then among ${CLIENTS} clients; fast schedule: ${study.fast}; ` +
      'those that differ once more from the corrected prefix',
    findings: findingsOf(ordinary, control, longest),
    tables: [{ title: 'Tokens until answers differ', rows: figures.flatMap((one) => rowsOf(one, longest)) }],
    charts: [
      {
        name: 'spans',
        title: 'Share of the requests that have got another token than alone',
        caption: 'Lower is better; deterministic requests must stay at 0.',
        kind: 'step',
        rows: figures.flatMap(({ kind, firsts, corrected }) => [
          ...curve(kind, 'from the beginning', firsts),
          ...curve(kind, 'from the corrected prefix', corrected),
        ]),
        x: { field: 'tokens', title: 'tokens', type: 'quantitative' },
        y: { field: 'share', title: 'share of requests', type: 'quantitative', domain: [0, 1] },
        color: { field: 'request', title: 'request' },
        facet: { field: 'span', title: 'counted' },
      },
    ],
    comparisons: comparisonsOf(greedy, longest, study),
    ...(changed > 0 && {
      failure: `${changed} of ${control.firsts.length} deterministic requests got another answer under load than alone`,
    }),
  };
}

function figuresOf(measures: readonly SpanMeasure[]): Figures {
  return {
    firsts: measures.map(({ first }) => first),
    seconds: measures
      .filter(({ first }) => first.end === 'difference')
      .map(({ second }) => (second === null ? { tokens: 0, end: 'cut' } : { tokens: second, end: 'difference' })),
    corrected: measures.flatMap(({ corrected }) => corrected ?? []),
    rollbacks: measures.reduce((sum, { rollbacks }) => sum + rollbacks, 0),
  };
}

function findingsOf({ firsts, seconds, corrected }: Figures, control: Figures, longest: number): string[] {
  const differing = seconds.length;
  const findings: string[] = [];
  if (differing === 0) {
    findings.push(
      `None of ${firsts.length} ordinary requests got another token under load than alone within ${longest} tokens: ` +
        'with this fast schedule and model, differences are rarer than these requests can show.',
    );
  } else {
    const half = spanQuantile(
      firsts.filter(({ end }) => end === 'difference'),
      0.5,
    )!;
    findings.push(
      `${differing} of ${firsts.length} ordinary requests got other tokens under load than alone within ${longest} tokens, ` +
        `half of these ${differing} by token ${half + 1}; ${percent(shareCut(firsts))} never differed.`,
      `Left alone, an answer that has differed once differs again within ${told(seconds, longest)} (median); put right at the ` +
        `difference, it goes on for ${told(corrected, longest)} (median).`,
      `As long as all tokens before are equal, ${rounded(differencesPerThousand([...firsts, ...corrected]), 2)} of 1000 differ.`,
    );
  }
  const equal = control.firsts.filter(({ end }) => end === 'cut').length;
  findings.push(
    `${equal} of ${control.firsts.length} deterministic requests in the same load got the same tokens as alone; ` +
      `their verification rolled back ${control.rollbacks} ${control.rollbacks === 1 ? 'time' : 'times'}.`,
  );
  return findings;
}

function rowsOf({ kind, firsts, seconds, corrected }: Figures & { readonly kind: SpanKind }, longest: number): Row[] {
  const row = (counted: string, spans: readonly Span[]): Row[] => {
    if (spans.length === 0) return [];
    const quantiles = Object.entries(QUANTILES).map(([name, q]) => [
      name,
      spanQuantile(spans, q) ?? `none in ${longest}`,
    ]);
    const never = rounded(100 * shareCut(spans), 1);
    return [{ request: kind, counted, requests: spans.length, ...Object.fromEntries(quantiles), 'never, %': never }];
  };
  return [
    ...row('until the first difference', firsts),
    ...row('from there to the next one', seconds),
    ...row('from the corrected prefix on', corrected),
  ];
}

function curve(request: SpanKind, span: string, spans: readonly Span[]): Row[] {
  return spans.length === 0 ? [] : endedShares(spans).map((corner) => ({ request, span, ...corner }));
}

/** Of the 8B and the 70B model. */
const PAPER_MEDIAN = [105, 187] as const;

/** A median that no answer was long enough for says nothing. */
function comparisonsOf({ firsts, seconds }: Figures, longest: number, study: Study): PaperComparison[] {
  const source = 'SOSP, figure 6, Llama-3.1-8B and Llama-3.3-70B on H100, ShareGPT, 512 tokens';
  const median = spanQuantile(firsts, 0.5);
  const again = seconds.length > 0 ? spanQuantile(seconds, 0.5) : undefined;
  return [
    ...(median === undefined && longest < PAPER_MEDIAN[1]
      ? []
      : [
          {
            what: 'tokens until the first difference of a greedy request, median',
            source,
            theirs: PAPER_MEDIAN,
            ours: median ?? longest,
            better: 'higher' as const,
            note:
              median === undefined
                ? `more than half never differed: ${longest} is where our answers end, not where they differ`
                : 'another model, and a fast schedule whose reductions change with the batch in other places',
          },
        ]),
    {
      what: 'share of greedy requests that never differ',
      source,
      theirs: [0.17, 0.2],
      ours: rounded(shareCut(firsts), 3),
      better: 'higher',
      note:
        `theirs in 512 tokens, ours in ${longest}` +
        (study.backend === 'cpu' && study.fast === 'native'
          ? '; `--fast batch-shaped` splits sums by the batch as libraries for GPUs do, which the quickest kernels of a CPU do not'
          : ''),
    },
    ...(again === undefined
      ? []
      : [
          {
            what: 'tokens from the first difference of a greedy request to the next one, median',
            source,
            theirs: 1,
            ours: again,
            better: 'higher',
            note: 'both answers go on as they are: from the first difference on they are different texts',
          } as const,
        ]),
  ];
}

function told(spans: readonly Span[], longest: number): string {
  const median = spanQuantile(spans, 0.5);
  if (median === undefined) return `more than ${longest} tokens`;
  return `${median} ${median === 1 ? 'token' : 'tokens'}`;
}

function percent(share: number): string {
  return `${rounded(100 * share, 1)} %`;
}
