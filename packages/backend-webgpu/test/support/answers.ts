import { assert, type BackendFactory, type WeightFormat } from '@stet/backend';
import {
  type CreateEngineOptions,
  createEngine,
  type GenerateEvent,
  HashChain,
  type Receipt,
  type StetEngine,
  type TextCompletion,
} from '@stet/engine';
import type { LoadedModel } from '@stet/model';
import { type AnswerCase, answerCases } from './answer-cases.js';

/** Everything of an answer that must repeat anywhere. Numbers of log-probabilities are the hex digits of their f64 bits. */
export interface Answer {
  readonly fingerprint: string;
  readonly texts: readonly string[];
  readonly finishReasons: readonly string[];
  /** Of a request with one answer. */
  readonly tokens?: readonly number[];
  /** One line a token. */
  readonly logprobs: readonly string[];
  readonly receipts: readonly Receipt[];
}

export interface AnswerOptions {
  readonly backend: BackendFactory;
  readonly open: (format: WeightFormat) => Promise<LoadedModel>;
  readonly policy: NonNullable<CreateEngineOptions['policy']>;
  /** Whether the requests of an engine are sent one after the other or all at once. */
  readonly company: 'alone' | 'together';
}

/** The answers to all cases of a format, by their names. */
export async function answersOf(format: WeightFormat, options: AnswerOptions): Promise<Record<string, Answer>> {
  const { backend, open, policy, company } = options;
  await using engine = await createEngine({ model: open(format), backend, policy, kv: { blockCount: 128 } });
  const cases = answerCases.filter((one) => one.format === format);
  const answers: Record<string, Answer> = {};
  const note = async (one: AnswerCase): Promise<void> => {
    answers[one.name] = await answer(engine, one);
  };
  if (company === 'together') await Promise.all(cases.map(note));
  else for (const one of cases) await note(one);
  return answers;
}

async function answer(engine: StetEngine, one: AnswerCase): Promise<Answer> {
  if (one.kind === 'generate') return answerOfStream(engine.generate({ ...one.request, deterministic: true }));
  return answerOfChoices(await engine.completions.create({ ...one.params, deterministic: true, stream: false }));
}

async function answerOfStream(stream: AsyncIterable<GenerateEvent>): Promise<Answer> {
  let fingerprint = '';
  let text = '';
  const tokens: number[] = [];
  const logprobs: string[] = [];
  const chain = new HashChain();
  for await (const event of stream) {
    if (event.type === 'accepted') fingerprint = event.fingerprint;
    if (event.type === 'commit') {
      tokens.push(...event.tokens);
      text += event.text;
      for (const { token, logprob, top } of event.logprobs ?? [])
        logprobs.push([{ token, logprob }, ...top].map((one) => `${one.token}:${bits(one.logprob)}`).join(' '));
      for (const token of event.tokens) chain.push(token);
      assert(event.hash === chain.hex, 'the hash of a commit is that of the tokens so far');
    }
    if (event.type === 'done') {
      assert(event.receipt, 'a deterministic answer has a receipt');
      const { finishReason, receipt } = event;
      return { fingerprint, texts: [text], finishReasons: [finishReason], tokens, logprobs, receipts: [receipt] };
    }
  }
  throw new Error('a stream ends with done');
}

function answerOfChoices({ choices, stet, system_fingerprint: fingerprint }: TextCompletion): Answer {
  return {
    fingerprint,
    texts: choices.map(({ text }) => text),
    finishReasons: choices.map(({ finish_reason: reason }) => reason),
    logprobs: choices.flatMap(({ logprobs }) =>
      logprobs!.token_logprobs.map((logprob, i) => {
        assert(logprob !== null, 'only the first token of an echoed prompt has none');
        const top = Object.entries(logprobs!.top_logprobs[i]!).map(([token, value]) => `${token}:${bits(value)}`);
        return [`${logprobs!.tokens[i]}:${bits(logprob)}`, ...top].join(' ');
      }),
    ),
    receipts: stet.receipts ?? [],
  };
}

function bits(value: number): string {
  return new BigUint64Array(Float64Array.of(value).buffer)[0]!.toString(16).padStart(16, '0');
}
