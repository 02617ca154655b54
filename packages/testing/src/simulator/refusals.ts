import type { StetErrorCode } from '@stet/backend';
import type { SequenceRequest } from '@stet/scheduler';
import type { SeededRandom } from '../random.js';
import type { Swarm } from './swarm.js';

/** A request that breaks one rule, and the code it must be refused with. */
export interface Refusal {
  readonly request: SequenceRequest;
  readonly code: StetErrorCode;
}

/** Breaks a rule of a good request. `openId`: the id of an open request, if there is one. */
export function refusedRequest(
  good: SequenceRequest,
  swarm: Swarm,
  random: SeededRandom,
  openId: string | undefined,
): Refusal {
  const promptCount = good.promptTokens.length;
  const capacity = (swarm.blockCount - 1) * swarm.blockSize;
  const refusals: Refusal[] = [
    { request: { ...good, promptTokens: new Int32Array(0) }, code: 'STET_ERR_BAD_REQUEST' },
    { request: { ...good, promptTokens: Int32Array.of(swarm.vocabSize) }, code: 'STET_ERR_BAD_REQUEST' },
    { request: { ...good, maxTokens: 0 }, code: 'STET_ERR_BAD_REQUEST' },
    { request: { ...good, seed: 2 ** 53 }, code: 'STET_ERR_BAD_REQUEST' },
    { request: { ...good, topLogprobs: 21 }, code: 'STET_ERR_BAD_REQUEST' },
    { request: { ...good, maxTokens: swarm.contextLength - promptCount + 1 }, code: 'STET_ERR_CONTEXT_LENGTH' },
  ];
  const context = swarm.contextLength - (swarm.contextLength % (swarm.canonicalShape?.windowTokens ?? 1));
  if (capacity < context)
    refusals.push({ request: { ...good, maxTokens: capacity - promptCount + 1 }, code: 'STET_ERR_KV_CAPACITY' });
  if (openId !== undefined) refusals.push({ request: { ...good, id: openId }, code: 'STET_ERR_DUPLICATE_ID' });
  return random.pick(refusals);
}
