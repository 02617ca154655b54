import { type BackendInfo, StetError } from '@stet/backend';
import type { SequenceRequest } from '@stet/scheduler';
import type { ResolvedParams } from '../api.js';
import { TextMachine } from '../text/text-machine.js';
import type { ModelText } from './model-text.js';
import { type ParsedRequest, type PromptInput, parseRequest, type RequestBounds } from './parse-request.js';

export interface PreparedRequest {
  readonly sequence: SequenceRequest;
  readonly params: ResolvedParams;
  readonly machine: TextMachine<unknown>;
}

export interface PrepareContext extends RequestBounds {
  readonly text: ModelText;
  readonly backend: Pick<BackendInfo, 'name' | 'canonical'>;
  readonly drawSeed: () => number;
  /** What `maxTokens` is when the request does not say, if the context has room for it. */
  readonly defaultMaxTokens: number;
  /** Whose prefix K/V the request shares. */
  readonly cacheScope: string | undefined;
}

const NO_TOKENS: ReadonlySet<number> = new Set();

/** From what a caller sent to what the scheduler runs, every default filled in. Throws a `StetError`. */
export function prepareRequest(id: string, request: unknown, context: PrepareContext): PreparedRequest {
  const parsed = parseRequest(request, context);
  if (parsed.deterministic && context.backend.canonical === 'none') {
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      `the backend ${context.backend.name} has no canonical schedule, so deterministic requests are refused`,
    );
  }
  const promptTokens = tokensOf(parsed.input, context.text);
  const params = resolveParams(parsed, promptTokens.length, context);
  const stopTokens = params.ignoreEos ? NO_TOKENS : context.text.endTokens;
  const machine = new TextMachine(context.text.decoder, {
    promptTokens,
    stops: params.stop,
    silentTokens: stopTokens,
  });
  return { sequence: toSequence(id, parsed, params, promptTokens, machine, stopTokens, context), params, machine };
}

function tokensOf(input: PromptInput, text: ModelText): readonly number[] {
  switch (input.kind) {
    case 'tokens':
      return input.tokens;
    case 'text':
      return nonEmpty(text.encode(input.text));
    case 'messages':
      return nonEmpty(text.encodeMessages(input.messages));
  }
}

function nonEmpty(tokens: readonly number[]): readonly number[] {
  if (tokens.length === 0) throw new StetError('STET_ERR_BAD_REQUEST', 'the prompt has no tokens');
  return tokens;
}

function resolveParams(parsed: ParsedRequest, promptLength: number, context: PrepareContext): ResolvedParams {
  const room = context.contextLength - promptLength;
  if (room < 1 || (parsed.maxTokens ?? 1) > room) {
    const asked = parsed.maxTokens === undefined ? '' : ` and ${parsed.maxTokens} output tokens`;
    throw new StetError(
      'STET_ERR_CONTEXT_LENGTH',
      `a prompt of ${promptLength} tokens${asked} does not fit in the context of ${context.contextLength}`,
    );
  }
  return {
    maxTokens: parsed.maxTokens ?? Math.min(context.defaultMaxTokens, room),
    deterministic: parsed.deterministic ?? false,
    temperature: parsed.temperature ?? 0,
    topK: parsed.topK ?? 0,
    topP: parsed.topP ?? 1,
    minP: parsed.minP ?? 0,
    frequencyPenalty: parsed.frequencyPenalty ?? 0,
    presencePenalty: parsed.presencePenalty ?? 0,
    repetitionPenalty: parsed.repetitionPenalty ?? 1,
    logitBias: parsed.logitBias ?? {},
    stop: parsed.stop,
    ...(parsed.logprobs !== undefined && { logprobs: parsed.logprobs }),
    ...(parsed.promptLogprobs !== undefined && { promptLogprobs: parsed.promptLogprobs }),
    provisional: parsed.provisional ?? false,
    priority: parsed.priority ?? 0,
    ignoreEos: parsed.ignoreEos ?? false,
  };
}

function toSequence(
  id: string,
  parsed: ParsedRequest,
  params: ResolvedParams,
  promptTokens: readonly number[],
  machine: TextMachine<unknown>,
  stopTokens: ReadonlySet<number>,
  context: PrepareContext,
): SequenceRequest {
  const { temperature, topK, topP, minP, frequencyPenalty, presencePenalty, repetitionPenalty } = params;
  const logitBias = new Map(Object.entries(params.logitBias).map(([token, bias]) => [Number(token), bias]));
  return {
    id,
    kind: params.deterministic ? 'deterministic' : 'ordinary',
    promptTokens: Int32Array.from(promptTokens),
    maxTokens: params.maxTokens,
    sampling: { temperature, topK, topP, minP, frequencyPenalty, presencePenalty, repetitionPenalty, logitBias },
    seed: parsed.seed ?? context.drawSeed(),
    stopTokens,
    ...(params.stop.length > 0 && { stop: machine }),
    ...(params.logprobs !== undefined && { topLogprobs: params.logprobs }),
    ...(params.promptLogprobs !== undefined && { promptLogprobs: params.promptLogprobs }),
    priority: params.priority,
    provisional: params.provisional,
    ...(context.cacheScope !== undefined && { cacheScope: context.cacheScope }),
  };
}
