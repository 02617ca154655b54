import { type BackendInfo, StetError } from '@stet/backend';
import type { KvCache } from '@stet/kv-cache';
import { alignDown, alignUp } from './fixed-shape.js';
import type { SamplingParams, SequenceRequest } from './request.js';

/** The largest seed: the noise is keyed by 53 bits. */
export const MAX_SEED = Number.MAX_SAFE_INTEGER;
/** Largest priority, either way. */
export const MAX_PRIORITY = 100;
/** Most likely tokens that log-probabilities may list. */
export const MAX_TOP_LOGPROBS = 20;

type Bounds = Pick<BackendInfo, 'vocabSize' | 'contextLength' | 'canonical' | 'canonicalShape'>;

/** Throws the `StetError` that says what is wrong with a request, or nothing. */
export function checkRequest(request: SequenceRequest, bounds: Bounds, kv: KvCache): void {
  const { promptTokens, maxTokens, seed, topLogprobs, promptLogprobs, priority } = request;
  if (request.kind === 'deterministic' && bounds.canonical === 'none') {
    throw new StetError(
      'STET_ERR_UNSUPPORTED',
      'this backend has no canonical schedule, so it serves no deterministic requests',
    );
  }
  if (promptTokens.length === 0) bad('the prompt has no tokens');
  for (const [index, token] of promptTokens.entries()) {
    if (token < 0 || token >= bounds.vocabSize)
      bad(`prompt token ${index} is ${token}, outside the vocabulary of ${bounds.vocabSize}`);
  }
  integer('maxTokens', maxTokens, 1, Number.MAX_SAFE_INTEGER);
  integer('seed', seed, 0, MAX_SEED);
  const mostLogprobs = Math.min(MAX_TOP_LOGPROBS, bounds.vocabSize);
  if (topLogprobs !== undefined) integer('topLogprobs', topLogprobs, 0, mostLogprobs);
  if (promptLogprobs !== undefined) integer('promptLogprobs', promptLogprobs, 0, mostLogprobs);
  range('priority', priority, -MAX_PRIORITY, MAX_PRIORITY);
  checkSampling(request.sampling, bounds.vocabSize);
  const windowTokens = (request.kind === 'deterministic' && bounds.canonicalShape?.windowTokens) || 1;
  checkLength(promptTokens.length, maxTokens, alignDown(bounds.contextLength, windowTokens), windowTokens, kv);
}

function checkSampling(sampling: SamplingParams, vocabSize: number): void {
  range('temperature', sampling.temperature, 0, 100);
  if (sampling.temperature > 0 && sampling.temperature < 1e-3) bad('temperature is below 0.001; use 0 for greedy');
  integer('topK', sampling.topK, 0, Number.MAX_SAFE_INTEGER);
  range('topP', sampling.topP, 0, 1);
  range('minP', sampling.minP, 0, 1);
  range('frequencyPenalty', sampling.frequencyPenalty, -2, 2);
  range('presencePenalty', sampling.presencePenalty, -2, 2);
  range('repetitionPenalty', sampling.repetitionPenalty, 0.1, 10);
  for (const [token, bias] of sampling.logitBias) {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize)
      bad(`logitBias names token ${token}, outside the vocabulary of ${vocabSize}`);
    range(`logitBias of token ${token}`, bias, -100, 100);
  }
}

function checkLength(
  promptCount: number,
  maxTokens: number,
  contextLength: number,
  windowTokens: number,
  kv: KvCache,
): void {
  if (promptCount + maxTokens > contextLength) {
    throw new StetError(
      'STET_ERR_CONTEXT_LENGTH',
      `${promptCount} prompt tokens and ${maxTokens} output tokens do not fit into the context of ${contextLength}`,
    );
  }
  const needed = kv.blocksFor(alignUp(promptCount + maxTokens, windowTokens));
  if (needed > kv.totalCount) {
    throw new StetError(
      'STET_ERR_KV_CAPACITY',
      `the request may need ${needed} K/V blocks, there are ${kv.totalCount}`,
    );
  }
}

function integer(name: string, value: number, least: number, most: number): void {
  if (!Number.isSafeInteger(value) || value < least || value > most)
    bad(`${name} is ${value}, expected an integer from ${least} to ${most}`);
}

function range(name: string, value: number, least: number, most: number): void {
  if (!(value >= least && value <= most)) bad(`${name} is ${value}, expected ${least} to ${most}`);
}

function bad(message: string): never {
  throw new StetError('STET_ERR_BAD_REQUEST', message);
}
