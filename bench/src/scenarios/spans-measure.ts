import { assert } from '@stet/backend';
import type { GenerateEvent, GenerateRequest, StetEngine } from '@stet/engine';
import { type LoopStream, runClosedLoop } from '../closed-loop.js';
import { seededUniform } from '../random.js';
import type { StudyContext } from '../study/context.js';
import { textSlice } from '../text-slices.js';
import { firstSpan, nextDifference, type Span } from './spans-compare.js';

export const spanKinds = ['greedy', 'sampled', 'deterministic'] as const;
/** `greedy` and `sampled` are ordinary requests; of the deterministic ones every second is sampled. */
export type SpanKind = (typeof spanKinds)[number];

/** One request, answered alone and under load. */
export type SpanMeasure = {
  readonly kind: SpanKind;
  readonly first: Span;
  /** From the first difference to the next of the same two answers; null where none follows. */
  readonly second: number | null;
  /** The first span of the request that goes on from the answer given alone, past the difference; null without one. */
  readonly corrected: Span | null;
  /** Of the answer under load. */
  readonly rollbacks: number;
};

export interface SpansCase {
  /** Prompts `firstPrompt`, `firstPrompt + 1`, …, each asked in every kind. */
  readonly firstPrompt: number;
  readonly promptCount: number;
  readonly outputTokens: number;
  /** Streams that keep the engine busy, those of the requests among them. */
  readonly clients: number;
  /** Makes differences where a test needs some. */
  readonly mismatchRate?: number;
}

const PROMPT_TOKENS = { least: 16, most: 96 };
const WINDOW = 16;
const TEMPERATURE = 0.8;
const BLOCK_SIZE = 16;

interface Answer {
  readonly tokens: number[];
  rollbacks: number;
}

/** Asks each request alone, then all of them among others; and those that differ once more, from where they did. */
export async function measureSpans(context: StudyContext, one: SpansCase): Promise<SpanMeasure[]> {
  const { clients, outputTokens, mismatchRate } = one;
  const positions = PROMPT_TOKENS.most + 2 * outputTokens;
  const engine = await context.engine({
    policy: { dvr: { windowTokens: WINDOW } },
    kv: { blockSize: BLOCK_SIZE, blockCount: clients * Math.ceil(positions / BLOCK_SIZE) },
    ...(mismatchRate !== undefined && { mismatchRate }),
  });
  const asked = requestsOf(context, one);
  const requests = asked.map(({ request }) => request);
  const filler = fillers(context, one);
  const alone = await eachAlone(engine, requests);
  const loaded = await underLoad(engine, requests, filler, clients);
  const spans = alone.map((answer, i) => firstSpan(answer.tokens, loaded[i]!.tokens));
  const differing = spans.flatMap(({ end }, i) => (end === 'difference' ? [i] : []));
  const continued = differing.map((i) => continuation(requests[i]!, alone[i]!.tokens, spans[i]!.tokens));
  const aloneAgain = await eachAlone(engine, continued);
  const loadedAgain = await underLoad(engine, continued, filler, clients);
  return asked.map(({ kind }, i) => {
    const at = differing.indexOf(i);
    const first = spans[i]!;
    return {
      kind,
      first,
      second: at < 0 ? null : nextDifference(alone[i]!.tokens, loaded[i]!.tokens, first.tokens),
      corrected: at < 0 ? null : firstSpan(aloneAgain[at]!.tokens, loadedAgain[at]!.tokens),
      rollbacks: loaded[i]!.rollbacks,
    };
  });
}

function requestsOf(context: StudyContext, { firstPrompt, promptCount, outputTokens }: SpansCase) {
  const { seed } = context.study;
  return Array.from({ length: promptCount }, (_, i) => firstPrompt + i).flatMap((prompt) => {
    const uniform = seededUniform(seed * 7919 + prompt);
    const length = PROMPT_TOKENS.least + Math.floor(uniform() * (PROMPT_TOKENS.most - PROMPT_TOKENS.least + 1));
    const promptTokens = textSlice(context.model, length, seed, prompt);
    return spanKinds.map((kind) => {
      const isSampled = kind === 'sampled' || (kind === 'deterministic' && prompt % 2 === 1);
      const request: GenerateRequest = {
        promptTokens,
        maxTokens: outputTokens,
        temperature: isSampled ? TEMPERATURE : 0,
        seed: seed + prompt,
        ignoreEos: true,
        deterministic: kind === 'deterministic',
      };
      return { kind, request };
    });
  });
}

/** As a verifier would have it: with the tokens that were given alone, up to and with the one where the other answer differs. */
function continuation(request: GenerateRequest, tokens: readonly number[], differsAt: number): GenerateRequest {
  return { ...request, promptTokens: [...request.promptTokens!, ...tokens.slice(0, differsAt + 1)] };
}

async function eachAlone(engine: StetEngine, requests: readonly GenerateRequest[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const request of requests) {
    const answer: Answer = { tokens: [], rollbacks: 0 };
    for await (const event of engine.generate(request)) note(answer, event);
    answers.push(answer);
  }
  return answers;
}

type Filler = (client: number, index: number) => GenerateRequest;

/** Each client sends some other request first, so that they are all at different places; then its own; then others until all are done. */
async function underLoad(
  engine: StetEngine,
  requests: readonly GenerateRequest[],
  filler: Filler,
  clients: number,
): Promise<Answer[]> {
  assert(requests.length <= clients, `${requests.length} requests for ${clients} clients`);
  const answers = requests.map((): Answer => ({ tokens: [], rollbacks: 0 }));
  if (requests.length === 0) return answers;
  const streams = Array.from({ length: clients }, (_, client): LoopStream => {
    const own = requests[client];
    return {
      role: own ? 'measured' : 'load',
      request: (index) => (own && index === 1 ? own : filler(client, index)),
      onEvent: (index, event) => {
        if (own && index === 1) note(answers[client]!, event);
      },
    };
  });
  await runClosedLoop(engine, streams, 1);
  return answers;
}

/** Ordinary requests whose prompts and lengths differ, so that the batch changes at every few tokens. */
function fillers({ model, study }: StudyContext, { outputTokens, clients, firstPrompt }: SpansCase): Filler {
  const least = Math.ceil(outputTokens / 8);
  return (client, index) => {
    const number = 100_000 + firstPrompt * 1000 + index * clients + client;
    const uniform = seededUniform(study.seed * 104_729 + number);
    const length = PROMPT_TOKENS.least + Math.floor(uniform() * (PROMPT_TOKENS.most - PROMPT_TOKENS.least + 1));
    return {
      promptTokens: textSlice(model, length, study.seed, number),
      maxTokens: least + Math.floor(uniform() * (outputTokens - least + 1)),
      temperature: index % 2 === 0 ? 0 : TEMPERATURE,
      seed: number,
      ignoreEos: true,
    };
  };
}

function note(answer: Answer, event: GenerateEvent): void {
  if (event.type === 'commit') answer.tokens.push(...event.tokens);
  else if (event.type === 'done') answer.rollbacks = event.stats.rollbacks;
}
