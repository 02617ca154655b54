import { isStetError } from '@stet/backend';
import type { Engine, GenerateRequest } from '@stet/engine';
import { type AnswerMeter, LoopMeter, type LoopResult } from './loop-meter.js';

/** One client: it sends a request, reads the answer, and sends the next one at once. */
export interface LoopStream {
  /** Request 0, 1, 2, … of the stream; a pure function. */
  request(index: number): GenerateRequest;
  /** `measured`: its answers 1 .. measuredRequests count, the one before them is a warm-up. `load`: it only keeps the engine busy. */
  readonly role: 'measured' | 'load';
}

/**
 * Keeps all streams busy until every measured one has its answers: whoever is done before goes on unmeasured, so the
 * load does not fade while the last one is measured.
 */
export async function runClosedLoop(
  engine: Engine,
  streams: readonly LoopStream[],
  measuredRequests: number,
): Promise<LoopResult> {
  const measured = streams.filter(({ role }) => role === 'measured').length;
  const end = new AbortController();
  const meter = new LoopMeter(measured, measured * measuredRequests);
  const clients = streams.map(async ({ request, role }) => {
    for (let index = 0; !meter.isComplete; index++) {
      const counts = role === 'measured' && index >= 1 && index <= measuredRequests;
      await readAnswer(
        engine,
        request(index),
        end.signal,
        counts ? meter.beginAnswer(performance.now()) : undefined,
        meter,
      );
      if (meter.isComplete) end.abort();
    }
  });
  try {
    await Promise.all(clients);
  } finally {
    end.abort();
    await Promise.allSettled(clients);
  }
  return meter.result();
}

/** Reads to the end, or until everybody has finished. */
async function readAnswer(
  engine: Engine,
  request: GenerateRequest,
  shared: AbortSignal,
  answer: AnswerMeter | undefined,
  meter: LoopMeter,
): Promise<void> {
  try {
    // A signal of its own: Node warns of a leak where many listeners share one.
    for await (const event of engine.generate(request, { signal: AbortSignal.any([shared]) })) {
      if (event.type !== 'commit') continue;
      meter.commit(event.tokens.length);
      answer?.commit(performance.now());
    }
    if (answer) meter.endAnswer(performance.now());
  } catch (error) {
    if (!(shared.aborted && isStetError(error) && error.code === 'STET_ERR_ABORTED')) throw error;
  }
}
